"""What failures of upstream accounts mean for their sessions: Retry-After, refused accounts, quarantine, a common cause.

Callers bring `Sign`s, what calls said of their accounts, and have locked the attempts they are of. Each verb then locks the
health of the pools by id, which is the lock of all health in a pool, then sessions by id in one statement; a second caller
waits at the pool and weighs what the first left. `weigh` decides, before the sessions are let go; `draw` then does it.

- **Retry-After** rests all sessions of its account until max(old, new). Without one, only the session that was refused.
- **Breaker**: so many transient failures of an account in a row quarantine it, for quarantine × 2^(times in a row), up to
  max. What was sent before does not count again. Then one session comes back first, the probe; its success brings the
  others back and heals, any other answer of the upstream only brings them back, its failure begins a longer quarantine.
  Without an answer the others come back `max` later.
- **Common cause**: when three accounts of a pool (both, where there are two) fail or are busy within ten seconds, and none
  of its calls has succeeded since the first failure or is under way, the whole pool rests as one: for the longest
  Retry-After, else for the quarantine. No account is blamed, and one session of the whole pool is the probe.
- **Refused** (401, 402, 403) may be the account's fault, or the job's. So a refusal is one tenant's word: the account rests as
  by its breaker, longer each time, and whatever job is next is its probe, whose success heals. It goes offline, until an
  operator enables it or its credential changes, when with no success in between a second tenant is refused as well (but
  never the last account of a pool that may be used, which goes on being probed), or three different jobs are, in a pool
  that no other tenant ever had a job in, for then nobody else can confirm it.
- **Suspected**: a job that a second account refuses, or the last one three times, is at fault and fails. What it said then
  speaks against no account: one that went offline by its word rests and is probed instead.
- **The probe is lost** when its session is drained, disabled, quarantined or not offered any more, or rests with its account:
  then another is elected, by the verb that took it or a sweep later. What runs on it is waited for.
"""

from collections.abc import Sequence

from pool import transitions
from pool.judging import Judge
from pool.queries import health, sessions
from pool.signs import Consequences, Kind, Questions, Sign

__all__ = ["Consequences", "Kind", "Questions", "Sign", "credential_changed", "draw", "heal", "weigh"]


def weigh(signs: Sequence[Sign], resource_ids: Sequence[int], ask: Questions) -> Consequences:
    """No arrow: decides and remembers what these signs mean; locks what `draw` and the caller will write.

    `resource_ids`: sessions the caller is about to let go.
    """
    done = Consequences()
    pools, accounts = [], set()
    done.pools = sorted({sign.pool_id for sign in signs})
    for row in health.lock(done.pools):
        judge = Judge(row, [sign for sign in signs if sign.pool_id == row["pool_id"]], done)
        if judge.weigh(ask):
            pools.append(row["pool_id"])
        accounts |= judge.changed
    accounts |= {*done.asked, *done.refused, *done.back, *health.open_in(done.pools)}
    done.resting = sessions.lock_all_of(pools, sorted(accounts), resource_ids)
    return done


def draw(done: Consequences) -> None:
    """AVAILABLE, COOLDOWN, OFFLINE → where they are wanted: what `weigh` decided, which has locked the sessions."""
    health.ask(list(done.asked.values()))
    for account_id, note in sorted(done.refused.items()):
        transitions.take_out(health.refuse(account_id, note))
    back = health.put_back(sorted(done.back))
    health.elect(done.pools)
    health.want(done.resting)
    transitions.put_back(back, "refusal taken back")
    transitions.rest_or_release(done.resting)


def heal(signs: Sequence[Sign]) -> list[tuple[str, str, str]]:
    """COOLDOWN → AVAILABLE: accounts and pools answered again; what the breaker wanted of their sessions is taken back.

    Signs are `well` or `answered`, of calls sent since the breaker opened. Returns what is to be told.
    """
    done = Consequences()
    pools, accounts = [], set()
    for row in health.lock(sorted({sign.pool_id for sign in signs})):
        judge = Judge(row, [sign for sign in signs if sign.pool_id == row["pool_id"]], done)
        if judge.heal():
            pools.append(row["pool_id"])
        accounts |= judge.changed
    if pools or accounts:
        resting = sessions.lock_all_of(pools, sorted(accounts), [])
        health.want(resting)
        transitions.rest_or_release(resting, "healed")
    return done.told


def credential_changed(account_ids: Sequence[int]) -> None:
    """OFFLINE, COOLDOWN → AVAILABLE: these accounts have new credentials; what followed from refusals is taken back.

    The caller has locked them, see `transitions.lock_with_breakers`. What an operator took out stays, and so does a rest
    that the upstream asked for.
    """
    if back := health.refused(account_ids):
        health.put_back(account_ids)
        health.forget(back)
        health.want(back)
        transitions.put_back(back, "credential changed")
