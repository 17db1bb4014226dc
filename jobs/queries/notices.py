"""Which lots expire soon, and their tenant was not told."""

from statemachine.sql import Row, fetch

_EXPIRING = """
SELECT a.owner_id AS tenant_id, l.remaining - l.reserved AS amount, l.expires_at, n.days,
       'credits.expiring:' || l.id || ':' || n.days AS key
FROM unnest(%s::int[], %s::int[]) AS n (days, but_not_within)
JOIN credits_lot l ON NOT l.spent AND l.remaining > l.reserved
     AND l.expires_at > clock_timestamp() + n.but_not_within * interval '1 day'
     AND l.expires_at <= clock_timestamp() + n.days * interval '1 day'
     AND l.expires_at > l.created_at + n.days * interval '1 day'
JOIN credits_account a ON a.id = l.account_id
WHERE NOT EXISTS (SELECT 1 FROM webhooks_event e
                  WHERE e.key = 'credits.expiring:' || l.id || ':' || n.days)
ORDER BY l.expires_at, l.id LIMIT %s"""


def expiring(days: list[int], limit: int) -> list[Row]:
    """Lots with free credits that expire within so many days, by the nearest of `days` alone; soonest first.
    One that was granted for less is not told of: its end was near from the beginning.

    Rows have tenant_id, amount, expires_at, days, and the key of the event that tells of it.
    """
    nearest_first = sorted(days)
    return fetch(_EXPIRING, [nearest_first, [0, *nearest_first[:-1]], limit])
