"""Upstream accounts with a balance: how they stand, and which of them are to be asked what they have left."""

from collections.abc import Sequence

from statemachine.sql import Row, fetch

MOST_ASKED = 50  # accounts of one round

_TRACKED = """
FROM pool_pool p
JOIN pool_upstreamaccount u ON u.pool_id = p.id AND u.tracked_since IS NOT NULL
JOIN credits_account a ON a.ledger = 'resource:' || p.id AND a.kind = 'upstream' AND a.owner_id = u.id
JOIN credits_balance b ON b.account_id = a.id
LEFT JOIN LATERAL (SELECT * FROM credits_reading WHERE account_id = a.id ORDER BY id DESC LIMIT 1) r ON true"""

_ASKED = """
u.id, u.pool_id, p.name AS pool, u.name AS account, p.name || '/' || u.name AS name, u.sealed_credential, u.labels, u.vars,
u.base_url, p.upstream, b.posted, b.held, (p.upstream -> 'balance' ->> 'most')::bigint AS most"""

# Spent is what was bought and corrected and is there no more: adding up the entries would take longer with each attempt.
_STANDING = f"""
SELECT {_ASKED}, b.posted - b.held AS available, d.drift, bought.amount + d.drift - b.posted AS spent,
       r.key AS reading_key, r.said, r.drift AS off, r.booked, r.at AS read_at, coalesce(moved.at > r.at, false) AS outdated,
       extract(epoch FROM clock_timestamp() - r.at)::float8 AS age_seconds
{_TRACKED}
CROSS JOIN LATERAL (
    SELECT coalesce(sum(amount), 0)::bigint AS amount FROM credits_transfer WHERE credit_id = a.id AND code = 'topup') bought
CROSS JOIN LATERAL (
    SELECT coalesce(sum(drift), 0)::bigint AS drift FROM credits_reading WHERE account_id = a.id AND booked) d
LEFT JOIN LATERAL (SELECT max(created_at) AS at FROM (
    (SELECT created_at FROM credits_transfer WHERE debit_id = a.id ORDER BY id DESC LIMIT 1) UNION ALL
    (SELECT created_at FROM credits_transfer WHERE credit_id = a.id ORDER BY id DESC LIMIT 1)) newest) moved ON true
WHERE %(ids)s::bigint[] IS NULL OR u.id = ANY(%(ids)s::bigint[])
ORDER BY p.name, u.name"""

_DUE = f"""
SELECT {_ASKED} {_TRACKED}
WHERE p.accepting AND p.tracks_credits AND p.upstream -> 'balance' IS NOT NULL AND u.id <> ALL(%(waiting)s::bigint[])
  AND (r.at IS NULL
       OR r.at < clock_timestamp() - (p.upstream -> 'balance' ->> 'every_ms')::bigint * interval '1 millisecond')
ORDER BY r.at NULLS FIRST, u.id LIMIT {MOST_ASKED}"""


def standing(account_ids: Sequence[int] | None = None) -> list[Row]:
    """Tracked accounts by name (None: all), with their newest reading: `said`, `off`, `booked`, `read_at`, `age_seconds`,
    and whether it is `outdated`: something was booked since.
    """
    return fetch(_STANDING, {"ids": None if account_ids is None else list(account_ids)})


def due(waiting: Sequence[int]) -> list[Row]:
    """Accounts whose newest reading is older than their pool wants, oldest first, but for those `waiting`."""
    return fetch(_DUE, {"waiting": list(waiting)})
