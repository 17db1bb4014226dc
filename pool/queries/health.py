"""Rows of the health of pools and accounts: locking, reading and writing them, and what they want of the sessions."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pool.queries.sessions import WANTED
from statemachine.sql import Row, fetch

# What a breaker is where the configuration says nothing.
FAILURES, QUARANTINE_MS, LONGEST_MS = 5, 30_000, 1_800_000
# A success counts by when it ended, but no more than this after it was sent: a long one says nothing of who is refused now.
SPEAKS_FOR_SECONDS = 2
_LONGEST = f"COALESCE((p.breaker->>'max_ms')::bigint, {LONGEST_MS})"

_MAKE = """
INSERT INTO pool_poolhealth (pool_id, level, why) SELECT id, 0, '' FROM pool_pool WHERE id = ANY(%s) ORDER BY id
ON CONFLICT DO NOTHING"""
_LOCK = f"""
SELECT h.pool_id, h.failing_since, h.failed_at, h.succeeded_at, h.level, h.opened_at, h.open_until, h.probe_id, h.why, p.name,
       COALESCE((p.breaker->>'failures')::int, {FAILURES}) AS failures,
       COALESCE((p.breaker->>'quarantine_ms')::bigint, {QUARANTINE_MS}) AS quarantine_ms, {_LONGEST} AS longest_ms,
       ARRAY(SELECT DISTINCT r.account_id FROM pool_resource r
             WHERE r.pool_id = p.id AND r.accepting AND NOT r.disabled
               AND COALESCE(r.rest_until, '-infinity') <= clock_timestamp()) AS usable,
       clock_timestamp() AS now
FROM pool_poolhealth h JOIN pool_pool p ON p.id = h.pool_id
WHERE h.pool_id = ANY(%s) ORDER BY h.pool_id FOR NO KEY UPDATE OF h"""
_ACCOUNTS = """
SELECT a.id AS account_id, a.name, COALESCE(h.failures, 0) AS failures, h.failed_at, h.asked_until,
       COALESCE(h.level, 0) AS level, h.opened_at, h.open_until, h.probe_id, COALESCE(h.why, '') AS why, h.refused_job,
       h.refused_tenant, COALESCE(h.refusals, 0) AS refusals,
       EXISTS (SELECT FROM pool_resource r WHERE r.account_id = a.id AND r.refused) AS is_offline
FROM pool_upstreamaccount a LEFT JOIN pool_accounthealth h ON h.account_id = a.id
WHERE a.pool_id = %s AND (a.id = ANY(%s) OR h.failed_at > %s OR h.refused_job IS NOT NULL) ORDER BY a.id"""

_OF_POOL = {
    "failing_since": "timestamptz",
    "failed_at": "timestamptz",
    "succeeded_at": "timestamptz",
    "level": "int",
    "opened_at": "timestamptz",
    "open_until": "timestamptz",
    "probe_id": "bigint",
    "why": "text",
}
_OF_ACCOUNT = {
    "failures": "int",
    "failed_at": "timestamptz",
    "asked_until": "timestamptz",
    "level": "int",
    "opened_at": "timestamptz",
    "open_until": "timestamptz",
    "probe_id": "bigint",
    "why": "text",
    "refused_job": "uuid",
    "refused_tenant": "bigint",
    "refusals": "int",
}


def _write(table: str, key: str, columns: Mapping[str, str]) -> str:
    shape = ", ".join(f"{name} {kind}" for name, kind in {key: "bigint", **columns}.items())
    return f"""
    INSERT INTO {table} ({key}, {", ".join(columns)})
    SELECT v.{key}, {", ".join(f"v.{name}" for name in columns)} FROM jsonb_to_recordset(%s::jsonb) AS v({shape})
    ORDER BY v.{key}
    ON CONFLICT ({key}) DO UPDATE SET {", ".join(f"{name} = EXCLUDED.{name}" for name in columns)}"""


_WRITE_POOLS = _write("pool_poolhealth", "pool_id", _OF_POOL)
_WRITE_ACCOUNTS = _write("pool_accounthealth", "account_id", _OF_ACCOUNT)

# The probe comes back when the quarantine is over; the others once it has answered, or so much later that it must have.
_PART = """CASE WHEN r.id = {0}.probe_id THEN {0}.open_until
                ELSE {0}.open_until + make_interval(secs => {1} / 1000.0) END"""
# A session that the probe of a breaker `b` may be: an operator lets it, and of a pool, its account is not at rest for itself.
_MAY_PROBE = """
SELECT r.id FROM pool_resource r JOIN pool_pool p ON p.id = r.pool_id
LEFT JOIN pool_accounthealth h ON h.account_id = r.account_id
WHERE r.{{key}} = b.{{key}} AND r.accepting AND NOT r.disabled
  AND COALESCE(GREATEST(r.rest_until, {own}), '-infinity') <= GREATEST(b.open_until, clock_timestamp())"""
_OF_BREAKER = {
    "pool_poolhealth": _MAY_PROBE.format(own=_PART.format("h", _LONGEST)).format(key="pool_id"),
    "pool_accounthealth": _MAY_PROBE.format(own="NULL").format(key="account_id"),
}
# What runs on the probe is still to tell. Where no session may be it, time alone brings the others back.
_LOST = """b.open_until IS NOT NULL
    AND NOT EXISTS (SELECT FROM pool_resource k WHERE k.id = b.probe_id AND k.state IN ('reserved', 'busy'))
    AND NOT EXISTS ({may} AND r.id = b.probe_id) AND EXISTS ({may})"""
LOST = {
    table: _LOST.format(may=may) for table, may in _OF_BREAKER.items()
}  # in SQL over a breaker `b` of one of the tables
_ELECT = """
UPDATE {table} b SET probe_id = ({may} ORDER BY r.state NOT IN ('available', 'cooldown'),
                                                GREATEST(r.asked_until, b.open_until), r.number, r.id LIMIT 1)
WHERE {of} AND {lost} RETURNING 1 AS elected"""
_IN_POOLS = {
    "pool_accounthealth": "b.account_id IN (SELECT a.id FROM pool_upstreamaccount a WHERE a.pool_id = ANY(%s))",
    "pool_poolhealth": "b.pool_id = ANY(%s)",
}
# The accounts first: the probe of a pool is rather on one that is not at rest, or is that one's own.
_ELECTIONS = [
    _ELECT.format(table=table, may=_OF_BREAKER[table], of=of, lost=LOST[table]) for table, of in _IN_POOLS.items()
]
_WITHOUT_PROBE = f"""
SELECT b.pool_id FROM pool_poolhealth b WHERE {LOST["pool_poolhealth"]}
UNION SELECT a.pool_id FROM pool_accounthealth b JOIN pool_upstreamaccount a ON a.id = b.account_id
WHERE {LOST["pool_accounthealth"]} ORDER BY 1 LIMIT 200"""
_OPEN = """
SELECT a.id AS account_id
FROM pool_upstreamaccount a LEFT JOIN pool_accounthealth h ON h.account_id = a.id
LEFT JOIN pool_poolhealth q ON q.pool_id = a.pool_id
WHERE a.pool_id = ANY(%s) AND (q.open_until IS NOT NULL OR h.open_until IS NOT NULL) ORDER BY a.id"""

_WANT = f"""
WITH parts AS (
    SELECT r.id, {_PART.format("q", _LONGEST)} AS common, q.why AS common_why,
           {_PART.format("h", _LONGEST)} AS own, h.why AS own_why
    FROM pool_resource r JOIN pool_pool p ON p.id = r.pool_id
    LEFT JOIN pool_poolhealth q ON q.pool_id = r.pool_id LEFT JOIN pool_accounthealth h ON h.account_id = r.account_id
    WHERE r.id = ANY(%s)),
wanted AS (
    SELECT id, GREATEST(common, own) AS until,
           CASE WHEN own IS NULL OR common >= own THEN common_why ELSE own_why END AS why
    FROM parts)
UPDATE pool_resource r SET broken_until = w.until,
       reason = CASE WHEN w.until > COALESCE({WANTED.format("r")}, '-infinity') THEN w.why ELSE r.reason END
FROM wanted w WHERE r.id = w.id AND r.broken_until IS DISTINCT FROM w.until"""

_ASK = f"""
UPDATE pool_resource r SET asked_until = GREATEST(r.asked_until, v.until),
       reason = CASE WHEN v.until > COALESCE({WANTED.format("r")}, '-infinity') THEN v.why ELSE r.reason END
FROM jsonb_to_recordset(%s::jsonb) AS v(account_id bigint, until timestamptz, why text)
WHERE r.account_id = v.account_id"""
_REFUSE = """
UPDATE pool_resource SET disabled = true, refused = true, note = %s WHERE account_id = %s AND NOT disabled RETURNING id"""
_PUT_BACK = """
UPDATE pool_resource SET disabled = false, refused = false, note = '' WHERE account_id = ANY(%s) AND refused
RETURNING id"""
_REFUSED = """
SELECT r.id FROM pool_resource r LEFT JOIN pool_accounthealth h ON h.account_id = r.account_id
WHERE r.account_id = ANY(%s) AND (r.refused OR h.refusals > 0)"""
_FORGET = """
UPDATE pool_accounthealth SET failures = 0, level = 0, opened_at = NULL, open_until = NULL, probe_id = NULL, why = '',
       refused_job = NULL, refused_tenant = NULL, refusals = 0
WHERE account_id IN (SELECT account_id FROM pool_resource WHERE id = ANY(%s))"""

# In SQL over an attempt `a` of a job `j`: whether its good end has something to heal. Nothing, when all is well.
AILING = f"""(EXISTS (SELECT FROM pool_accounthealth h WHERE h.account_id = a.account_id
                 AND (h.failures > 0 OR h.level > 0 OR h.open_until IS NOT NULL OR h.refused_tenant IS NOT NULL)
                 AND (h.open_until IS NULL OR a.called_at >= h.opened_at))
         OR EXISTS (SELECT FROM pool_poolhealth q WHERE q.pool_id = j.pool_id
                    AND CASE WHEN q.open_until IS NOT NULL THEN a.called_at >= q.opened_at
                        ELSE q.level > 0 AND a.called_at >= q.failed_at
                             OR LEAST(a.ended_at, a.called_at + interval '{SPEAKS_FOR_SECONDS} seconds') > q.failing_since
                                AND q.failing_since > COALESCE(q.succeeded_at, '-infinity') END))"""


def lock(pool_ids: Sequence[int]) -> list[Row]:
    """Locks the health of these pools in id order, made where it is missing: name, the columns, the breaker's terms (failures,
    quarantine_ms, longest_ms), usable (accounts that may take jobs, at rest or not), now.
    """
    fetch(_MAKE, [list(pool_ids)])
    return fetch(_LOCK, [list(pool_ids)])


def accounts(pool_id: int, account_ids: Sequence[int], failed_since: Any) -> list[Row]:
    """The health of these accounts, and of others of the (locked) pool that failed since then or refused somebody."""
    return fetch(_ACCOUNTS, [pool_id, list(account_ids), failed_since])


def write(pools: Iterable[Row], accounts: Iterable[Row]) -> None:
    """Stores the health of (locked) pools and of accounts in them."""
    for sql, rows in ((_WRITE_POOLS, list(pools)), (_WRITE_ACCOUNTS, list(accounts))):
        if rows:
            fetch(sql, [json.dumps(rows, default=str)])


def open_in(pool_ids: Sequence[int]) -> list[int]:
    """Accounts of these pools that rest by a breaker, their own or their pool's."""
    return [row["account_id"] for row in fetch(_OPEN, [list(pool_ids)])]


def elect(pool_ids: Sequence[int]) -> bool:
    """Another probe for each open breaker of these (locked) pools whose own is none or may not run. Whether there were any."""
    elected = [fetch(sql, [list(pool_ids)]) for sql in _ELECTIONS]
    return any(elected)


def without_probe() -> list[int]:
    """Pools in which the probe of an open breaker may not run, and another session may."""
    return [row["pool_id"] for row in fetch(_WITHOUT_PROBE)]


def want(resource_ids: Sequence[int]) -> None:
    """Writes at these (locked) sessions until when the breakers of pool and account want them to rest."""
    fetch(_WANT, [list(resource_ids)])


def ask(rows: Sequence[Row]) -> None:
    """All (locked) sessions of an account rest at least `until`: rows of account_id, until, why."""
    if rows:
        fetch(_ASK, [json.dumps(rows, default=str)])


def refuse(account_id: int, note: str) -> list[int]:
    """The upstream refuses the account: its (locked) sessions are to be offline. Those that were not yet."""
    return [row["id"] for row in fetch(_REFUSE, [note, account_id])]


def put_back(account_ids: Sequence[int]) -> list[int]:
    """Takes back that the upstream refused these accounts; an operator's word stays. Ids of the (locked) sessions."""
    return [row["id"] for row in fetch(_PUT_BACK, [list(account_ids)])]


def refused(account_ids: Sequence[int]) -> list[int]:
    """The (locked) sessions of those of these accounts that have refused jobs since their last success."""
    return [row["id"] for row in fetch(_REFUSED, [list(account_ids)])]


def forget(resource_ids: Sequence[int]) -> None:
    """What was held against the accounts of these sessions is forgotten; the caller has locked the health of their pools."""
    fetch(_FORGET, [list(resource_ids)])
