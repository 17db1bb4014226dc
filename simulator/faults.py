"""The faults a test can ask for: their names and values, and the rules that say which request meets which fault."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulator.times import seconds

MOST_RULES = 1000
MOST_REMEMBERED_JOBS = 1_000_000


class BadFault(ValueError):
    """The fault, or the rule around it, is not one this provider knows."""


@dataclass(frozen=True, slots=True)
class Failure:
    """`fail`: refused at once with `code`, unless `late` or `billed`: then it runs its time first."""

    code: int
    retry_after: str | None = None
    billed: bool = False
    late: bool = False

    @property
    def executed(self) -> bool:
        return self.billed or self.late


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one request. Fields carry the names tests use; the README explains each."""

    ok: float | None = None
    finish_late: float | None = None
    fail: Failure | None = None
    accept_then_drop: bool = False
    hang: float | bool = False
    error_body: bool = False
    unreadable_body: bool = False
    cut_body: bool = False
    partial: float | None = None
    bad_usage: tuple[Any] | None = None
    status_word: str | None = None
    empty_id: bool = False
    no_callback: bool = False
    dup_callback: int = 1
    late_callback: float = 0.0
    early_callback: bool = False
    out_of_order: bool = False
    poll_404: int = 0
    hang_poll: float = 0.0
    lose_poll: int = 0
    stale_poll: int = 0
    lose_find: int = 0
    find_late: float = 0.0
    exists: bool = False
    cancel_slow: float = 0.0
    cancel_ignored: bool = False
    lose_cancel: bool = False

    @property
    def duration_seconds(self) -> float | None:
        if self.finish_late is not None:
            return self.finish_late
        if self.ok is not None:
            return self.ok
        return None if isinstance(self.hang, bool) else self.hang


NO_FAULT = Fault()


@dataclass(slots=True)
class Rule:
    """A fault for one account (or all, when empty), met by `probability`, at most `times` times."""

    account: str
    fault: dict[str, Any]
    written: Mapping[str, Any]
    probability: float = 1.0
    times: int | None = None
    repeats: bool = False

    def is_met(self, account: str, repeat: bool, dice: random.Random) -> bool:
        if self.times == 0 or (self.account and self.account != account) or (repeat and not self.repeats):
            return False
        if self.probability < 1 and dice.random() >= self.probability:
            return False
        if self.times is not None:
            self.times -= 1
        return True


@dataclass
class Rules:
    """All rules in force. Several that are met at once are laid over each other; a request's own `sim` wins."""

    dice: random.Random
    rules: list[Rule] = field(default_factory=list)
    met_by_job: dict[str, int] = field(default_factory=dict)

    def pick(self, account: str, sim: Mapping[str, Any] | None, job: str, repeat: bool) -> Fault:
        """The fault this request meets. A repeat of a known key meets only what says `repeats`."""
        if not self.rules and sim is None:
            return NO_FAULT
        merged: dict[str, Any] = {}
        for rule in self.rules:
            if rule.is_met(account, repeat, self.dice):
                merged.update(rule.fault)
        if sim is not None:
            merged.update(self._of_request(sim, job, repeat))
        return Fault(**merged) if merged else NO_FAULT

    def _of_request(self, sim: Mapping[str, Any], job: str, repeat: bool) -> dict[str, Any]:
        own = dict(sim)
        times, repeats = own.pop("times", None), own.pop("repeats", False)
        fault = parse_fault(own)
        if repeat and not repeats:
            return {}
        if times is None:
            return fault
        # The payload of a job is the same at each try, so its own `times` is counted per job.
        met = self.met_by_job.get(job, 0)
        if met >= _whole(times) or len(self.met_by_job) >= MOST_REMEMBERED_JOBS:
            return {}
        self.met_by_job[job] = met + 1
        return fault

    def add(self, rule: Rule) -> None:
        if len(self.rules) >= MOST_RULES:
            raise BadFault(f"more than {MOST_RULES} rules")
        self.rules.append(rule)

    def clear(self, account: str | None) -> int:
        """Forget the rules of one account, or all; answers how many."""
        kept = [] if account is None else [rule for rule in self.rules if rule.account != account]
        cleared = len(self.rules) - len(kept)
        self.rules = kept
        return cleared


def parse_fault(written: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a `Fault` from `{"finish_late": "2s", …}`. BadFault names what is wrong."""
    fields: dict[str, Any] = {}
    for name, value in written.items():
        if name not in CONVERTERS:
            raise BadFault(f"no fault {name!r}; known: {', '.join(sorted(CONVERTERS))}")
        try:
            fields[name] = CONVERTERS[name](value)
        except (ValueError, TypeError, KeyError) as error:
            raise BadFault(f"fault {name!r} cannot be {value!r}: {error}") from error
    return fields


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false is wanted")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a whole number from 0 is wanted")
    return value


def _failure(value: object) -> Failure:
    parts = dict(value) if isinstance(value, Mapping) else {"code": value}
    code = _whole(parts.pop("code"))
    if not 400 <= code <= 599:
        raise ValueError("the code must be 400 to 599")
    retry_after = parts.pop("retry_after", None)
    billed, late = _switch(parts.pop("billed", False)), _switch(parts.pop("late", False))
    if parts:
        raise ValueError(f"unknown: {', '.join(parts)}")
    return Failure(code, None if retry_after is None else str(retry_after), billed, late)


def _fraction(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("a fraction of the units, 0 to 1, is wanted")
    return float(value)


CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "ok": seconds,
    "finish_late": seconds,
    "fail": _failure,
    "accept_then_drop": _switch,
    "hang": lambda value: value if isinstance(value, bool) else seconds(value),
    "error_body": _switch,
    "unreadable_body": _switch,
    "cut_body": _switch,
    "partial": _fraction,
    "bad_usage": lambda value: (value,),
    "status_word": str,
    "empty_id": _switch,
    "no_callback": _switch,
    "dup_callback": _whole,
    "late_callback": seconds,
    "early_callback": _switch,
    "out_of_order": _switch,
    "poll_404": _whole,
    "hang_poll": seconds,
    "lose_poll": _whole,
    "stale_poll": _whole,
    "lose_find": _whole,
    "find_late": seconds,
    "exists": _switch,
    "cancel_slow": seconds,
    "cancel_ignored": _switch,
    "lose_cancel": _switch,
}
