"""Finding the open holds that are due for a review, without an index that every closing would have to pay for.

A walk goes once through all holds in the order of their ids, an hour behind the newest, and writes down those still
open. From then on only what was written down is asked. Who has to do with a hold decides what becomes of it; here no
money moves, and nothing is ever released by time.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from statemachine.sql import fetch

WALK = 5_000  # holds of one walk
DUE = 500  # reviews taken at once
ATTENTION_SECONDS = 60.0  # between two looks at what needs an operator: few, and to be seen ended soon

# Ids are not committed in their order, so a hold with a lower id may appear behind the walk. It is not passed over as
# long as its transaction ends within `older`: its id was drawn before that of the hold the walk stands at, whose row is
# that old. Ours end within minutes (statements, waits for locks and idling are each cut after 30 s at the most), and an
# open hold that is not reviewed is a breach of the audit.
_WALK = f"""
WITH mark AS MATERIALIZED (
    SELECT passed FROM credits_holdwalk WHERE id = 1 FOR NO KEY UPDATE SKIP LOCKED
), ahead AS MATERIALIZED (
    SELECT h.id, h.status, h.attempt,
           h.created_at <= statement_timestamp() - make_interval(secs => %(older)s) AS old
    FROM mark CROSS JOIN LATERAL (
        SELECT * FROM credits_hold h WHERE h.id > mark.passed ORDER BY h.id LIMIT {WALK}) h
), passing AS MATERIALIZED (
    SELECT * FROM ahead WHERE id < coalesce((SELECT min(id) FROM ahead WHERE NOT old), {2**63 - 1})
), noted AS (
    INSERT INTO credits_holdreview (hold_id, due_at)
    SELECT id, statement_timestamp() FROM passing WHERE status = 'open' AND attempt = 0 ORDER BY id
    ON CONFLICT (hold_id) DO NOTHING
)
UPDATE credits_holdwalk w SET passed = p.last
FROM (SELECT max(id) AS last, count(*) AS number FROM passing) p
WHERE w.id = 1 AND p.last IS NOT NULL
RETURNING p.number"""

# Asked before, since an insert waits for a walk that is on its way, to see whether the row stays.
_BEGIN = """
INSERT INTO credits_holdwalk (id) SELECT 1 WHERE NOT EXISTS (SELECT FROM credits_holdwalk) ON CONFLICT (id) DO NOTHING"""

_DUE = """
SELECT EXISTS (SELECT FROM credits_holdreview WHERE due_at <= statement_timestamp())
    OR (SELECT h.created_at FROM credits_hold h
        WHERE h.id > coalesce((SELECT passed FROM credits_holdwalk WHERE id = 1), 0) ORDER BY h.id LIMIT 1)
       <= statement_timestamp() - make_interval(secs => %(older)s) AS due"""

_TAKE = f"""
WITH due AS MATERIALIZED (
    SELECT r.hold_id FROM credits_holdreview r WHERE r.due_at <= statement_timestamp()
    ORDER BY r.due_at, r.hold_id LIMIT {DUE} FOR NO KEY UPDATE SKIP LOCKED
), seen AS MATERIALIZED (
    SELECT due.hold_id, h.job_id, h.run, h.status
    FROM due CROSS JOIN LATERAL (SELECT * FROM credits_hold h WHERE h.id = due.hold_id OFFSET 0) h
), gone AS (
    DELETE FROM credits_holdreview r USING seen s WHERE r.hold_id = s.hold_id AND s.status <> 'open'
)
UPDATE credits_holdreview r
SET due_at = statement_timestamp() + make_interval(
        secs => CASE WHEN r.needs_attention_since IS NULL THEN %(again)s ELSE {ATTENTION_SECONDS} END)
FROM seen s WHERE r.hold_id = s.hold_id AND s.status = 'open'
RETURNING r.hold_id, s.job_id, s.run, r.attention"""

_RAISE = f"""
WITH raised AS (
    SELECT r.hold_id, v.why FROM credits_holdreview r
    JOIN jsonb_to_recordset(%(whys)s::jsonb) AS v(id bigint, why text) ON v.id = r.hold_id
    WHERE r.needs_attention_since IS NULL ORDER BY r.hold_id FOR NO KEY UPDATE OF r)
UPDATE credits_holdreview r SET needs_attention_since = clock_timestamp(), attention = raised.why,
       due_at = statement_timestamp() + interval '{ATTENTION_SECONDS} seconds'
FROM raised WHERE r.hold_id = raised.hold_id RETURNING r.hold_id"""

_CALM = """
UPDATE credits_holdreview SET needs_attention_since = NULL, attention = ''
WHERE hold_id = ANY(%(ids)s) AND needs_attention_since IS NOT NULL"""


@dataclass(frozen=True, slots=True)
class DueHold:
    """An open hold to be looked at now; `attention` says why an operator was asked to look, if one was."""

    hold_id: int
    job_id: UUID
    run: int
    attention: str


def are_due(older_seconds: float) -> bool:
    """Whether there is something to walk past or to review; two look-ups by index, nothing is locked."""
    return bool(fetch(_DUE, {"older": older_seconds})[0]["due"])


def walk(older_seconds: float) -> int:
    """Goes past the next holds made longer than so ago, and writes down those still open. How many it went past.

    Locks the row that says how far it has come; a second walker passes by and finds 0.
    """
    fetch(_BEGIN)
    return sum(row["number"] for row in fetch(_WALK, {"older": older_seconds}))


def take_due(again_seconds: float) -> list[DueHold]:
    """Open holds whose review is due, now due again in so many seconds; rows of holds that were closed are dropped.

    One statement; locks reviews with SKIP LOCKED. A second reviewer gets others, and one that dies loses no hold.
    """
    return [DueHold(**row) for row in fetch(_TAKE, {"again": again_seconds})]


def raise_attention(whys: Mapping[int, str]) -> list[int]:
    """An operator should look at these holds (id → why). Returns those for which it was not said yet.

    Locks the reviews in id order; a second caller waits and raises nothing.
    """
    rows = [{"id": hold_id, "why": why} for hold_id, why in whys.items()]
    return [row["hold_id"] for row in fetch(_RAISE, {"whys": json.dumps(rows)})] if rows else []


def calm(hold_ids: Sequence[int]) -> None:
    """No operator is needed any more. Locks the reviews that change; a second caller changes nothing."""
    if hold_ids:
        fetch(_CALM, {"ids": sorted(hold_ids)})
