"""How often an upstream account may be asked: a bucket on its row, spent under its lock (generic cell rate algorithm).

`ask_after` is the time up to which the budget is spent; a burst of `BURST_MS` may be spent ahead. Source: ITU-T I.371.
"""

import json
from collections.abc import Sequence

from statemachine.sql import fetch

BURST_MS = 1_000

_LOCK = "SELECT id FROM pool_upstreamaccount WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE"
_SPEND = f"""
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
wanted AS (
    SELECT v.id, v.account_id, row_number() OVER (PARTITION BY v.account_id ORDER BY v.place) AS n
    FROM jsonb_to_recordset(%s::jsonb) AS v(id bigint, account_id bigint, place bigint)),
budgets AS (
    SELECT c.id AS account_id, clock.now,
           make_interval(secs => COALESCE((p.upstream->'poll_rate'->>1)::float8
                                          / NULLIF((p.upstream->'poll_rate'->>0)::float8, 0), 0) / 1000) AS each,
           GREATEST(c.ask_after, clock.now) AS spent
    FROM clock, pool_upstreamaccount c JOIN pool_pool p ON p.id = c.pool_id
    WHERE c.id IN (SELECT account_id FROM wanted)),
placed AS (
    SELECT w.id, w.account_id, b.each, b.spent,
           extract(epoch FROM b.spent + (w.n - 1) * b.each - b.now) * 1000 - {BURST_MS} AS late_ms
    FROM wanted w JOIN budgets b USING (account_id)),
paid AS (
    UPDATE pool_upstreamaccount c SET ask_after = s.spent + s.asked * s.each
    FROM (SELECT account_id, spent, each, count(*) AS asked FROM placed WHERE late_ms <= 0
          GROUP BY account_id, spent, each) s
    WHERE c.id = s.account_id AND s.each > interval '0')
SELECT id, GREATEST(late_ms, 0) AS rest_ms FROM placed"""
_REST = """
UPDATE pool_upstreamaccount c
SET ask_after = GREATEST(c.ask_after, clock_timestamp() + make_interval(secs => v.rest_ms / 1000.0))
FROM jsonb_to_recordset(%s::jsonb) AS v(account_id bigint, rest_ms bigint) WHERE c.id = v.account_id"""


def spend(wanted: Sequence[tuple[int, int]]) -> dict[int, float]:
    """Takes from the budgets what these attempts ({id, account}) ask, in their order; by attempt the milliseconds it has to
    wait, 0: none.

    Locks the accounts in id order; a second caller waits there and finds what is left.
    """
    if not wanted:
        return {}
    fetch(_LOCK, [sorted({account_id for _, account_id in wanted})])
    rows = [{"id": id_, "account_id": account_id, "place": place} for place, (id_, account_id) in enumerate(wanted)]
    return {row["id"]: float(row["rest_ms"]) for row in fetch(_SPEND, [json.dumps(rows)])}


def rest(rest_ms: dict[int, int]) -> None:
    """Accounts that answered an asking with "too many" are not asked again so soon. Locks them in id order."""
    if rest_ms:
        fetch(_LOCK, [sorted(rest_ms)])
        rows = [{"account_id": account_id, "rest_ms": ms + BURST_MS} for account_id, ms in rest_ms.items()]
        fetch(_REST, [json.dumps(rows)])
