"""What a configuration brings back after a restore counts as if it had been there when the database went back.

The lost commits may have held a pool, an account, a longer `max_runtime`, or have moved a type to another pool, and jobs were
sent by that. So its pools are closed for as long as they would have been, and new accounts, or the address that calls have
now, are asked for waiting jobs as well.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Doubts:
    """Whose waiting jobs may be known where nobody has asked: ids of pools and job types. `otherwise`: their calls change;
    the others are found otherwise, or have new accounts.
    """

    pools: Collection[int] = ()
    types: Collection[int] = ()
    pools_otherwise: Collection[int] = ()
    types_otherwise: Collection[int] = ()

    def pools_concerned(self) -> list[int]:
        """Pools in which such jobs wait."""
        pools, types = {*self.pools, *self.pools_otherwise}, {*self.types, *self.types_otherwise}
        return suspicions.where_places_matter(pools, types) if pools or types else []


def close(until: Mapping[int, datetime], doubts: Doubts, concerned: Collection[int]) -> None:
    """Closes these pools until then, or longer, if they are closed; those that the doubts concern, until they are cleared:
    waiting jobs are suspected anew.

    Within the caller's transaction, which has locked the sessions of all these pools; locks the pools by id, then
    suspicions. A claim that waits for a session reads there that it is given to nobody; whoever was asking upstreams decides
    nothing, since he has not asked there.
    """
    pool_ids = sorted({*until, *concerned})
    if pool_ids:
        quarantine.close_sessions(pool_ids)
        queries.close_again(pool_ids, until, NOTE)
    if concerned:
        suspicions.look_anew(doubts.pools, doubts.types, doubts.pools_otherwise, doubts.types_otherwise)
