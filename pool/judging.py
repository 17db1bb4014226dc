"""Judging the signs of one pool: who is blamed, who rests and how long. `pool.health` says by which rules, and does it."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta

from pool.queries import health
from pool.signs import Consequences, OfAccount, OfPool, Questions, Sign
from statemachine.sql import Row

WINDOW = timedelta(seconds=10)
FEWEST_ACCOUNTS = 3  # with a common cause; where there are only two, both
# Of one job, then it is at fault; of different jobs where nobody else can confirm, then the account is.
MOST_REFUSALS = 3
SPEAKS_FOR = timedelta(seconds=health.SPEAKS_FOR_SECONDS)
LONGEST_WHY = 200
REFUSED = "refused by the upstream, not taken out by an operator: "  # begins the note of such sessions


class Judge:
    """One pool whose health is locked, and what these signs mean in it. `changed`: accounts whose rests change."""

    def __init__(self, row: Row, signs: Sequence[Sign], done: Consequences) -> None:
        self.pool, self.signs, self.done = OfPool(**row), signs, done
        self.now = self.pool.now
        ids = {sign.account_id for sign in signs}.union(*(sign.elsewhere for sign in signs))
        rows = health.accounts(self.pool.pool_id, sorted(ids), self.now - WINDOW)
        self.accounts = {row["account_id"]: OfAccount(**row) for row in rows}
        self.before = {account_id: replace(account) for account_id, account in self.accounts.items()}
        self.rested: set[int] = set()  # a second failure of one batch begins no second rest
        self.changed: set[int] = set()

    def weigh(self, ask: Questions) -> bool:
        """True when the rest of the whole pool is over."""
        self._succeeded(sign for sign in self.signs if sign.kind == "well")
        closed = self._cleared_by([sign for sign in self.signs if sign.kind == "answered"])
        failed, reopen = False, False
        for sign in self.signs:
            if sign.kind == "refused":
                self._refused(sign, ask)
            elif sign.kind in ("busy", "transient"):
                self._ask(sign)
                reopen |= self._failed_as_probe(sign)
                failed |= self._count(sign)
        if common := reopen or (failed and self._have_a_common_cause(ask)):
            self._open_pool()
        for account in self.accounts.values():
            if not common and self.pool.open_until is None and account.failures >= self.pool.failures:
                self._open(account)
        self._store()
        return closed

    def heal(self) -> bool:
        """True when the rest of the whole pool is over."""
        self._succeeded(sign for sign in self.signs if sign.kind == "well")
        closed = self._cleared_by(self.signs)
        self._store()
        return closed

    def _cleared_by(self, signs: Sequence[Sign]) -> bool:
        before = self.pool.open_until
        for sign in signs:
            self._cleared(self.pool, sign)
            self._cleared(self.accounts[sign.account_id], sign)
        return before is not None and self.pool.open_until is None

    def _cleared(self, breaker: OfPool | OfAccount, sign: Sign) -> None:
        """Only a success ends the growth; another answer shows that the upstream is there, no more."""
        if breaker.opened_at is not None and sign.called_at < breaker.opened_at:
            return
        was_open = breaker.open_until is not None
        breaker.close()
        breaker.why = ""
        if was_open:
            self._tell(breaker, "answers again")
        if sign.kind == "well":
            breaker.level = 0
        if isinstance(breaker, OfAccount):
            if was_open:
                self.changed.add(breaker.account_id)
            if was_open or sign.kind == "well":
                breaker.failures = 0
            if sign.kind == "well":
                breaker.refused_job, breaker.refused_tenant, breaker.refusals = None, None, 0

    def _succeeded(self, signs: Iterable[Sign]) -> None:
        for sign in signs:
            spoke = min(sign.ended_at or self.now, sign.called_at + SPEAKS_FOR)
            self.pool.succeeded_at = max(spoke, self.pool.succeeded_at or spoke)

    def _ask(self, sign: Sign) -> None:
        if sign.kind != "busy" or not sign.rest_ms:
            return
        account, until = self.accounts[sign.account_id], self.now + timedelta(milliseconds=sign.rest_ms)
        account.asked_until = max(until, account.asked_until or until)
        earlier = self.done.asked.get(sign.account_id)
        if earlier is None or earlier["until"] < until:
            why = f"the upstream asked for a rest: {sign.why}"[:LONGEST_WHY]
            self.done.asked[sign.account_id] = {"account_id": sign.account_id, "until": until, "why": why}

    def _failed_as_probe(self, sign: Sign) -> bool:
        """Whether it was sent after the pool's rest, and before the others came back by time."""
        until = self.pool.open_until
        if until is None or self.now < until:
            return False
        if self.now >= until + timedelta(milliseconds=self.pool.longest_ms):
            self.pool.close()
            return False
        self._explain(sign)
        return sign.called_at >= until

    def _count(self, sign: Sign) -> bool:
        """Whether it is a failure that may be blamed on somebody: not one of a call sent before a rest that goes on."""
        if self.pool.open_until is not None:
            return False
        account = self.accounts[sign.account_id]
        if self._is_first():
            self.pool.failing_since = self.now
        self.pool.failed_at = account.failed_at = self.now
        account.why = sign.why[:LONGEST_WHY]
        self._explain(sign)
        if sign.kind == "transient":
            if account.open_until is None:
                account.failures += 1
            elif sign.called_at >= account.open_until:
                account.failures = self.pool.failures  # the probe: once is enough
        return True

    def _is_first(self) -> bool:
        """Whether no failure is recent, or a call has succeeded since the first of those that are."""
        since, last, succeeded = self.pool.failing_since, self.pool.failed_at, self.pool.succeeded_at
        return (
            since is None or last is None or last < self.now - WINDOW or (succeeded is not None and succeeded > since)
        )

    def _explain(self, sign: Sign) -> None:
        self.pool.why = f"several accounts at once: {sign.why}"[:LONGEST_WHY]

    def _have_a_common_cause(self, ask: Questions) -> bool:
        if len(self._failing()) < min(FEWEST_ACCOUNTS, max(2, len(self.pool.usable))):
            return False
        at_once = all(sign.at_once for sign in self.signs)
        return not ask.goes_on(self.pool.pool_id, self._failing_since(), at_once)

    def _failing_since(self) -> datetime:
        return self.pool.failing_since or self.now

    def _failing(self) -> list[OfAccount]:
        """Accounts whose last failure is recent, with no success in the pool since the first of them."""
        since = max(self.now - WINDOW, self._failing_since())
        return [each for each in self.accounts.values() if each.failed_at is not None and each.failed_at >= since]

    def _open_pool(self) -> None:
        failing = self._failing()
        asked = [each.asked_until for each in failing if each.asked_until and each.asked_until > self.now]
        self._rest(self.pool, max(asked, default=None))
        for account in failing:
            account.failures = 0
            if account.opened_at is not None and account.opened_at > self.now - WINDOW:  # blamed before it was clear
                account.close()
                account.level = max(0, account.level - 1)

    def _open(self, account: OfAccount) -> None:
        account.failures = 0
        if account.account_id not in self.rested:
            self.rested.add(account.account_id)
            self._rest(account)
        self.changed.add(account.account_id)

    def _rest(self, breaker: OfPool | OfAccount, until: datetime | None = None) -> None:
        # Beyond 2^40 it is the longest anyway.
        grown_ms = min(self.pool.quarantine_ms * 2 ** min(breaker.level, 40), self.pool.longest_ms)
        until = until or self.now + timedelta(milliseconds=grown_ms)
        breaker.rest(self.now, until)
        self._tell(breaker, f"rests for {(until - self.now).total_seconds():.3g} s: {breaker.why}")

    def _refused(self, sign: Sign, ask: Questions) -> None:
        account = self.accounts[sign.account_id]
        if not account.is_offline:
            account.refusals += sign.job_id != account.refused_job
            account.refused_job = sign.job_id
            account.refused_tenant = account.refused_tenant or sign.tenant_id
            account.why = f"refused by the upstream: {sign.why}"[:LONGEST_WHY]
            if account.open_until is None or sign.called_at >= account.open_until:
                self._open(account)
        if sign.elsewhere - {sign.account_id}:
            self._suspect(sign)
            self._take_back(sign)
        elif self._is_last(account) and sign.refusals + 1 >= MOST_REFUSALS:
            self._suspect(sign)
        if not account.is_offline and self._is_confirmed(account, sign, ask):
            self._take_out(account, sign)

    def _is_last(self, account: OfAccount) -> bool:
        return not set(self.pool.usable) - {account.account_id}

    def _is_confirmed(self, account: OfAccount, sign: Sign, ask: Questions) -> bool:
        """Whether a second tenant says so too, or nobody could and it happened too often."""
        taken_back = account.refused_job != sign.job_id
        if taken_back or account.refused_tenant is None or sign.tenant_id is None:
            return False
        if account.refused_tenant != sign.tenant_id:
            return not self._is_last(account)
        return account.refusals >= MOST_REFUSALS and ask.is_alone(self.pool.pool_id, sign.tenant_id)

    def _suspect(self, sign: Sign) -> None:
        if sign.job_id is not None:
            self.done.suspects.add(sign.job_id)

    def _take_back(self, sign: Sign) -> None:
        """What a job said that several accounts refuse speaks against none of them; they stay at rest, to be probed."""
        for account_id in sorted(sign.elsewhere | {sign.account_id}):
            account = self.accounts.get(account_id)
            if account is None or account.refused_job != sign.job_id:
                continue
            account.refusals = max(0, account.refusals - 1)
            account.refused_job = None
            if not account.refusals:
                account.refused_tenant = None
            if account.is_offline:
                account.is_offline = False
                self.pool.usable.append(account_id)
                self.done.refused.pop(account_id, None)
                self.done.back.add(account_id)
                self._tell(account, "is probed again: another account refused that job too")

    def _take_out(self, account: OfAccount, sign: Sign) -> None:
        account.is_offline = True
        self.pool.usable = [each for each in self.pool.usable if each != account.account_id]
        note = f"{REFUSED}{sign.why}"[:LONGEST_WHY]
        self.done.refused[account.account_id] = note
        self.done.back.discard(account.account_id)
        self._tell(account, note)

    def _store(self) -> None:
        changed = [asdict(each) for each in self.accounts.values() if each != self.before[each.account_id]]
        health.write([asdict(self.pool)], changed)

    def _tell(self, breaker: OfPool | OfAccount, what: str) -> None:
        account = breaker.name if isinstance(breaker, OfAccount) else ""
        self.done.told.append((account, self.pool.name, what))
