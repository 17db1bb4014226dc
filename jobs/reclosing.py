"""What a configuration brings back after a restore counts as if it had been there when the database went back.

The lost commits may have held a pool, an account, a longer `max_runtime`, or have moved a type to another pool, and jobs were
sent by that. So its pools are closed for as long as they would have been, and new accounts are asked for waiting jobs as well.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from jobs.queries import restoring as queries
from jobs.queries import suspicions
from pool.models import Pool
from pool.queries import quarantine

NOTE = "restored: what was applied after it may have been in use before"


def closings(longest_ms: Mapping[str, int]) -> dict[str, datetime]:
    """By name the pools, of these, that have to be closed (or closed longer), and until when: given is how long the types
    run, in milliseconds, that a pool has and had not when the database went back.
    """
    restore = queries.sent_until() if longest_ms else None
    if restore is None:
        return {}
    until = {name: restore["until"] + timedelta(milliseconds=ms) for name, ms in longest_ms.items()}
    stand = dict(Pool.objects.filter(name__in=until).values_list("name", "quarantined_until"))
    return {name: at for name, at in until.items() if at > max(stand.get(name) or restore["now"], restore["now"])}


def with_doubts(pool_ids: Collection[int]) -> list[int]:
    """The pools, of these, where jobs wait that an account which is added now may have had before."""
    return suspicions.where_accounts_matter(pool_ids) if pool_ids else []


def close(until: Mapping[int, datetime], with_new_accounts: Collection[int]) -> None:
    """Closes these pools until then, or longer, if they are closed; in those with new accounts waiting jobs are suspected anew.

    Within the caller's transaction, which has locked the sessions of all these pools; locks the pools by id, then
    suspicions. A claim that waits for a session reads there that it is given to nobody; whoever was asking upstreams decides
    nothing, since he has not asked the new account.
    """
    pool_ids = sorted({*until, *with_new_accounts})
    if pool_ids:
        quarantine.close_sessions(pool_ids)
        queries.close_again(pool_ids, until, NOTE)
        suspicions.look_anew(sorted(with_new_accounts))
