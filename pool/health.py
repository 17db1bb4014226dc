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
- **Refused** (401, 402, 403): the account goes offline until an operator enables it or its credential changes. But a job
  may be at fault, and must not take one account after the other down. One that was refused by a second account is
  suspected: it fails, and both accounts come back with a probe, in a quarantine that grows with repetition. An account
  that has already refused another tenant since its last success is believed to be refused, whoever asks.
"""

from collections.abc import Iterable, Sequence

from pool import transitions
from pool.judging import SPEAKS_FOR, Consequences, GoesOn, Judge, Kind, Sign
from pool.queries import health, sessions

__all__ = ["SPEAKS_FOR", "Consequences", "Kind", "Sign", "credential_changed", "draw", "heal", "lock", "weigh"]


def weigh(signs: Sequence[Sign], resource_ids: Sequence[int], goes_on: GoesOn) -> Consequences:
    """No arrow: decides and remembers what these signs mean; locks what `draw` and the caller will write.

    `resource_ids`: sessions the caller is about to let go. `goes_on(pool, since, under_way)`: whether a call sent since then
    has succeeded or, where asked, is under way without being refused.
    """
    done = Consequences()
    pools, accounts = [], set()
    for row in health.lock(sorted({sign.pool_id for sign in signs})):
        judge = Judge(row, [sign for sign in signs if sign.pool_id == row["pool_id"]], done)
        if judge.weigh(goes_on):
            pools.append(row["pool_id"])
        accounts |= judge.changed
    accounts |= {*done.asked, *done.refused, *done.back}
    done.resting = sessions.lock_all_of(pools, sorted(accounts), resource_ids)
    return done


def draw(done: Consequences) -> None:
    """AVAILABLE, COOLDOWN, OFFLINE → where they are wanted: what `weigh` decided, which has locked the sessions."""
    health.ask(list(done.asked.values()))
    for account_id, note in sorted(done.refused.items()):
        transitions.take_out(health.refuse(account_id, note))
    back = health.put_back(sorted(done.back))
    for row in done.opened:
        row["probe_id"] = health.elect(row)
    health.write([row for row in done.opened if "pool_id" in row], [row for row in done.opened if "account_id" in row])
    health.want(done.resting)
    transitions.put_back(back, "refusal taken back")
    transitions.settle(done.resting)


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
        transitions.settle(resting, "healed")
    return done.told


def lock(pool_ids: Iterable[int], account_ids: Sequence[int]) -> None:
    """Locks the health of these pools, then all sessions of the accounts, in id order: before anything of them is written."""
    health.lock(sorted(pool_ids))
    sessions.lock_all_of([], account_ids, [])


def credential_changed(account_ids: Sequence[int]) -> None:
    """OFFLINE → AVAILABLE: these accounts (locked, see `lock`) have new credentials; what the upstream refused is put back.

    What an operator took out stays, and so does a rest that the upstream asked for.
    """
    if back := health.put_back(account_ids):
        health.forget(back)
        health.want(back)
        transitions.put_back(back, "credential changed")
