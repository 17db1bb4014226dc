"""Judging the signs of one pool: who is blamed, who rests and how long. `pool.health` says by which rules, and does it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from pool.queries import health
from statemachine.sql import Row

WINDOW = timedelta(seconds=10)
FEWEST_ACCOUNTS = 3  # with a common cause; where there are only two, both
# A success counts by when it ended, but no more than this after it was sent: a long one says nothing of who is refused now.
SPEAKS_FOR = timedelta(seconds=2)
LONGEST_WHY = 200
REFUSED = "refused by the upstream, not taken out by an operator: "  # begins the note of such sessions

Kind = Literal["busy", "transient", "refused", "answered", "well"]
GoesOn = Callable[[int, datetime, bool], bool]


@dataclass(frozen=True)
class Sign:
    """What one call, sent at `called_at`, said of its account. `rest_ms`: Retry-After, already bounded.

    `ended_at`: of a success, when it is not now. `at_once`: it was refused, not lost or timed out. `elsewhere`: accounts
    that refused this run of its job before.
    """

    kind: Kind
    pool_id: int
    account_id: int
    called_at: datetime
    ended_at: datetime | None = None
    rest_ms: int = 0
    at_once: bool = True
    why: str = ""
    job_id: UUID | None = None
    tenant_id: int | None = None
    elsewhere: frozenset[int] = frozenset()


@dataclass
class Consequences:
    """What is to be done once the sessions were let go. `suspects`: jobs that are at fault; `told`: (account or '', pool,
    what happened) for the journal.
    """

    asked: dict[int, Row] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    back: set[int] = field(default_factory=set)
    opened: list[Row] = field(default_factory=list)
    resting: list[int] = field(default_factory=list)  # ids of the sessions whose rests change
    suspects: set[UUID] = field(default_factory=set)
    told: list[tuple[str, str, str]] = field(default_factory=list)


class Judge:
    """One pool whose health is locked, and what these signs mean in it. `changed`: accounts whose rests change."""

    def __init__(self, pool: Row, signs: Sequence[Sign], done: Consequences) -> None:
        self.pool, self.signs, self.done = pool, signs, done
        self.now: datetime = pool["now"]
        ids = {sign.account_id for sign in signs}.union(*(sign.elsewhere for sign in signs))
        rows = health.accounts(pool["pool_id"], sorted(ids), self.now - WINDOW)
        self.accounts: dict[int, Row] = {row["account_id"]: row for row in rows}
        self.before = {account_id: dict(row) for account_id, row in self.accounts.items()}
        self.changed: set[int] = set()

    def weigh(self, goes_on: GoesOn) -> bool:
        """True when the whole pool begins to rest, or does no longer."""
        self._succeeded(sign for sign in self.signs if sign.kind == "well")
        closed = self._cleared_by([sign for sign in self.signs if sign.kind == "answered"])
        failed, reopen = False, False
        for sign in self.signs:
            if sign.kind == "refused":
                self._refused(sign)
            elif sign.kind in ("busy", "transient"):
                self._ask(sign)
                reopen |= self._failed_as_probe(sign)
                failed |= self._count(sign)
        common = reopen or (failed and self._have_a_common_cause(goes_on))
        if common:
            self._open_pool()
        for row in self.accounts.values():
            if not common and self.pool["open_until"] is None and row["failures"] >= self.pool["failures"]:
                self._open(row)
        self._store()
        return common or closed

    def heal(self) -> bool:
        """True when the rest of the whole pool is over."""
        self._succeeded(sign for sign in self.signs if sign.kind == "well")
        closed = self._cleared_by(self.signs)
        self._store()
        return closed

    def _cleared_by(self, signs: Sequence[Sign]) -> bool:
        before = self.pool["open_until"]
        for sign in signs:
            for row in (self.pool, self.accounts[sign.account_id]):
                if row["open_until"] is not None and sign.called_at < row["opened_at"]:
                    continue
                if row["open_until"] is not None:
                    self._tell(row, "answers again")
                    self.changed |= {row["account_id"]} if "account_id" in row else set()
                row |= {"open_until": None, "opened_at": None, "probe_id": None, "why": ""}
                self._cleared(row, sign.kind)
        return before is not None and self.pool["open_until"] is None

    def _cleared(self, row: Row, kind: Kind) -> None:
        """Only a success ends the growth; another answer shows that the upstream is there, no more."""
        if "account_id" in row and (kind == "well" or row["account_id"] in self.changed):
            row["failures"] = 0
        if kind == "well":
            row["level"] = 0
            row |= {"refused_job": None, "refused_tenant": None} if "account_id" in row else {}

    def _succeeded(self, signs: Iterable[Sign]) -> None:
        last: datetime | None = self.pool["succeeded_at"]
        for sign in signs:
            spoke = min(sign.ended_at or self.now, sign.called_at + SPEAKS_FOR)
            last = spoke if last is None else max(last, spoke)
        self.pool["succeeded_at"] = last

    def _ask(self, sign: Sign) -> None:
        if sign.kind != "busy" or not sign.rest_ms:
            return
        row, until = self.accounts[sign.account_id], self.now + timedelta(milliseconds=sign.rest_ms)
        row["asked_until"] = max(until, row["asked_until"] or until)
        earlier = self.done.asked.get(sign.account_id)
        if earlier is None or earlier["until"] < until:
            why = f"the upstream asked for a rest: {sign.why}"[:LONGEST_WHY]
            self.done.asked[sign.account_id] = {"account_id": sign.account_id, "until": until, "why": why}

    def _failed_as_probe(self, sign: Sign) -> bool:
        """Whether it was sent after the pool's rest, and before the others came back by time."""
        until = self.pool["open_until"]
        if until is None or self.now < until:
            return False
        if self.now >= until + timedelta(milliseconds=self.pool["longest_ms"]):
            self.pool |= {"open_until": None, "opened_at": None, "probe_id": None}
            return False
        self._explain(sign)
        return bool(sign.called_at >= until)

    def _count(self, sign: Sign) -> bool:
        """Whether it is a failure that may be blamed on somebody: not one of a call sent before a rest that goes on."""
        if self.pool["open_until"] is not None:
            return False
        row = self.accounts[sign.account_id]
        if self._is_first():
            self.pool["failing_since"] = self.now
        self.pool["failed_at"] = row["failed_at"] = self.now
        row["why"] = sign.why[:LONGEST_WHY]
        self._explain(sign)
        if sign.kind == "transient":
            if row["open_until"] is None:
                row["failures"] += 1
            elif sign.called_at >= row["open_until"]:
                row["failures"] = self.pool["failures"]  # the probe: once is enough
        return True

    def _is_first(self) -> bool:
        """Whether no failure is recent, or a call has succeeded since the first of those that are."""
        since, last, succeeded = (self.pool[name] for name in ("failing_since", "failed_at", "succeeded_at"))
        return since is None or last < self.now - WINDOW or (succeeded is not None and succeeded > since)

    def _explain(self, sign: Sign) -> None:
        self.pool["why"] = f"several accounts at once: {sign.why}"[:LONGEST_WHY]

    def _have_a_common_cause(self, goes_on: GoesOn) -> bool:
        if len(self._failing()) < min(FEWEST_ACCOUNTS, max(2, self.pool["accounts"])):
            return False
        at_once = all(sign.at_once for sign in self.signs)
        return not goes_on(self.pool["pool_id"], self.pool["failing_since"], at_once)

    def _failing(self) -> list[Row]:
        """Accounts whose last failure is recent, with no success in the pool since the first of them."""
        since = max(self.now - WINDOW, self.pool["failing_since"] or self.now)
        return [row for row in self.accounts.values() if row["failed_at"] is not None and row["failed_at"] >= since]

    def _open_pool(self) -> None:
        failing = self._failing()
        asked = [row["asked_until"] for row in failing if row["asked_until"] and row["asked_until"] > self.now]
        self._rest(self.pool, max(asked, default=None))
        for row in failing:
            row["failures"] = 0
            if row["opened_at"] is not None and row["opened_at"] > self.now - WINDOW:  # blamed before it was clear
                row |= {"opened_at": None, "open_until": None, "probe_id": None, "level": max(0, row["level"] - 1)}

    def _open(self, row: Row) -> None:
        self._rest(row)
        row["failures"] = 0
        self.changed.add(row["account_id"])

    def _rest(self, row: Row, until: datetime | None = None) -> None:
        if any(row is opened for opened in self.done.opened):
            return
        # Beyond 2^40 it is the longest anyway.
        grown_ms = min(self.pool["quarantine_ms"] * 2 ** min(row["level"], 40), self.pool["longest_ms"])
        row["opened_at"], row["open_until"] = self.now, until or self.now + timedelta(milliseconds=grown_ms)
        row["level"] += 1
        row["probe_id"] = None
        self.done.opened.append(row)
        self._tell(row, f"rests for {(row['open_until'] - self.now).total_seconds():.3g} s: {row['why']}")

    def _refused(self, sign: Sign) -> None:
        row = self.accounts[sign.account_id]
        by_another = row["refused_tenant"] is not None and row["refused_tenant"] != sign.tenant_id
        if sign.elsewhere - {sign.account_id} and not by_another and sign.job_id is not None:
            self.done.suspects.add(sign.job_id)
            self._suspected(row, sign)
            for account_id in sign.elsewhere:
                other = self.accounts.get(account_id)
                if other is not None and other["refused_job"] == sign.job_id and account_id != sign.account_id:
                    self._suspected(other, sign)
                    self.done.back.add(account_id)
            return
        # The job that may still turn out to be at fault; none where a second tenant was refused too.
        row["refused_job"] = None if by_another else sign.job_id
        row["refused_tenant"] = row["refused_tenant"] if by_another else sign.tenant_id
        note = f"{REFUSED}{sign.why}"[:LONGEST_WHY]
        self.done.refused[sign.account_id] = note
        self._tell(row, note)

    def _suspected(self, row: Row, sign: Sign) -> None:
        row["why"] = f"refused one job, which another account refused too: {sign.why}"[:LONGEST_WHY]
        row["refused_job"], row["refused_tenant"] = sign.job_id, sign.tenant_id
        self._open(row)

    def _store(self) -> None:
        changed = [row for row in self.accounts.values() if row != self.before[row["account_id"]]]
        health.write([self.pool], changed)

    def _tell(self, row: Mapping[str, object], what: str) -> None:
        account = str(row["name"]) if "account_id" in row else ""
        self.done.told.append((account, str(self.pool["name"]), what))
