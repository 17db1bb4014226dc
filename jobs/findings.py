"""A finding is what became known of a flight, and what follows for its attempt and its session."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from credits import pricing
from jobs import inquiry
from jobs.flight import Flight
from jobs.states import NOT_EXECUTED, PROVEN, UNKNOWN
from jobs.verdicts import OF_ACCOUNT, OF_ACCOUNTS, OPERATOR, UNREADABLE, pause_ms
from upstream.calls import Outcome

BUSY_REST_MS = 1_000
AUTH_REST_MS = 30_000  # where the credential cannot be opened here; another worker may have the key
LONGEST_TEXT = 1_000  # characters of what is no JSON
LONGEST_CODE = 50  # characters of an error code that are kept, whichever adapter gave it


@dataclass(frozen=True)
class Finding:
    """What is now known of a flight, and from where: its `answer`, a `poll`, `find`, `cancel`, `callback`, or without
    the upstream: `lost`, `waited`, `operator`. `said` is kept with it. `of_account`: its error speaks of our account,
    though the account is not to be refused for it.
    """

    flight: Flight
    outcome: Outcome
    kind: str = "answer"
    said: Mapping[str, Any] = field(default_factory=dict)
    of_account: bool = False

    @classmethod
    def of_answer(cls, flight: Flight, outcome: Outcome) -> "Finding":
        """What came back from a call.

        That there is no such key is not believed as long as it may be on its way.
        """
        early = outcome.verdict == NOT_EXECUTED and flight.row["age_ms"] < flight.ways.find_after_ms
        if flight.action == "find" and early:
            outcome = replace(outcome, over=False, verdict="unknown", error_code="missing_early")
        return cls(flight, outcome, "answer" if flight.action == "submit" else flight.action)

    @classmethod
    def worker_lost(cls, flight: Flight) -> "Finding":
        """Its lease ended: the worker is gone, the call may have been received."""
        return cls(flight, Outcome(over=False, verdict="unknown", error_code="worker_lost"), "lost")

    @classmethod
    def still_unknown(cls, flight: Flight) -> "Finding":
        """It was to be looked at, and nothing new can be known before max_runtime has passed."""
        code, message = flight.row["error_code"], flight.row["error_message"]
        outcome = Outcome(over=False, verdict="unknown", error_code=code, error_message=message)
        return cls(flight, outcome, "waited", of_account=flight.row["error_class"] == OF_ACCOUNT)

    @classmethod
    def waited_out(cls, flight: Flight) -> "Finding":
        """max_runtime has passed: the session is over, what it did stays unknown."""
        code = flight.row["error_code"] or "outcome_unknown"
        message = flight.row["error_message"] or "max_runtime has passed, and nobody knows what came of it"
        outcome = Outcome(over=True, verdict="unknown", error_code=code, error_message=message)
        return cls(flight, outcome, "waited", of_account=flight.row["error_class"] == OF_ACCOUNT)

    @classmethod
    def of_operator(cls, flight: Flight, executed: bool, units: float | None, said: Mapping[str, Any]) -> "Finding":
        """Somebody looked, and declares the session over: it was executed, or nobody will know."""
        outcome = Outcome(over=True, verdict="succeeded" if executed else "unknown", units=units if executed else None)
        return cls(flight, outcome, OPERATOR, said)

    @property
    def proven(self) -> bool:
        """Whether it tells of a success, whole or partial."""
        return self.outcome.verdict in PROVEN

    @property
    def ends(self) -> bool:
        """Whether the session is to be let go: it is over, and there is nothing to find out any more."""
        unknown = self.outcome.verdict == UNKNOWN
        return self.outcome.over and not (unknown and self.kind == "answer" and self.flight.way != "wait")

    @property
    def denies(self) -> bool:
        """Whether it says that the work was not taken, which something else may gainsay: upstreams forget keys, and what
        stands between us refuses what they have.
        """
        may_be_gainsaid = self.kind == "find" or (self.kind == "answer" and self.flight.ways.mode != "sync")
        return self.outcome.verdict == NOT_EXECUTED and may_be_gainsaid

    def doubtful(self) -> "Finding":
        """The same, not believed."""
        return replace(self, outcome=replace(self.outcome, over=False, verdict="unknown"))

    @property
    def goes_on(self) -> bool:
        """Whether the upstream says that it has the work, and is not done."""
        return not self.ends and self.outcome.verdict == "" and self.kind != "cancel"

    @property
    def doubts(self) -> bool:
        """Whether its outcome is unknown now. Only what we asked makes it so, not what we are told."""
        return not self.ends and self.outcome.verdict == UNKNOWN and self.kind not in ("cancel", "callback")

    @property
    def asked(self) -> bool:
        """Whether the upstream was asked for it."""
        return self.kind in ("poll", "find")

    @property
    def of_key(self) -> bool:
        """Whether it is the upstream's own word of a dispatch key, not the answer to one sending of it."""
        return self.kind == "callback"

    def standing(self, fences: Mapping[str, int]) -> "Finding":
        """The same, by the fences of the (locked) attempts, by dispatch key: the upstream's own word is of whichever sending is
        the last.
        """
        fence = fences.get(self.flight.row["dispatch_key"])
        if fence is None or not self.of_key:
            return self
        return replace(self, flight=replace(self.flight, fence=fence))

    @property
    def is_news(self) -> bool:
        """Whether it tells more than is known; of a thousand polls that say "still running" one is kept."""
        row = self.flight.row
        same = row["verdict"] == self.outcome.verdict and row["error_code"] == self.outcome.error_code
        said_often = self.asked or self.kind == "callback"
        return self.ends or not (said_often and row["phase"] == "accepted" and same)

    def evidence(self) -> dict[str, Any]:
        """The row that is kept whoever comes late."""
        names = [each.name for each in fields(self.outcome) if each.name not in ("result", "content", "unread")]
        known = {name: getattr(self.outcome, name) for name in names}
        content = {name: storable(value) for name, value in {**known, **self.said}.items() if value not in (None, "")}
        return {**self.named(), "key": self.flight.row["dispatch_key"], "kind": self.kind, "content": content}

    def end(self) -> dict[str, Any]:
        """The attempt's last columns."""
        known = {
            name: storable(getattr(self.outcome, name))
            for name in (
                *("verdict", "error_class", "error_code", "error_message", "retry_after_ms"),
                *("units", "usage_problem", "result"),
            )
        }
        known["reported_cost"], odd = self._reported_cost()
        if known["units"] is None and self.outcome.units is not None:
            odd = odd or f"units: {self.outcome.units}"
        known["usage_problem"] = known["usage_problem"] or odd
        reference = storable(self.outcome.reference) or self.flight.row["reference"]
        known["error_code"] = known["error_code"][:LONGEST_CODE]
        if self.kind == OPERATOR and self.outcome.verdict == UNKNOWN:
            known["error_class"] = OPERATOR
        if self.of_account:
            known["error_class"] = OF_ACCOUNT
        return {"id": self.flight.attempt_id, "fence": self.flight.fence, "reference": reference, **known}

    def late(self) -> dict[str, Any]:
        """What a success is remembered by that came when its attempt was not to be ended by it any more."""
        reference = storable(self.outcome.reference) or self.flight.row["reference"]
        return {"id": self.flight.attempt_id, "units": storable(self.outcome.units), "reference": reference}

    def _reported_cost(self) -> tuple[int | None, str]:
        """In micro-credits, and why it could not be believed."""
        try:
            return None if self.outcome.cost is None else pricing.to_micro(self.outcome.cost), ""
        except pricing.PriceError as error:
            return None, f"cost: {error}"

    def going(self) -> dict[str, Any]:
        """What is known of work that goes on, and when it is asked for: in its time, or when max_runtime is over."""
        answered = self.kind != "callback"
        reference = storable(self.outcome.reference) or self.flight.row["reference"]
        known = {**self.flight.row, "reference": reference, "phase": "accepted", "asks_failed": 0}
        may_be_asked = inquiry.way(known, self.flight.ways, may_send_again=False) != "wait"
        pause = inquiry.pause_ms(self.flight.ways, 0, self.outcome.retry_after_ms) if may_be_asked else self._wait_ms()
        return {
            **self.named(),
            "answered": answered,
            "asked": self.asked,
            "reference": reference,
            "progress": storable(self.outcome.progress),
            "age_ms": self.flight.row["age_ms"],
            "pause_ms": pause,
            "over_ms": self.flight.over_ms,
        }

    def doubt(self) -> dict[str, Any]:
        """When to look again: after a pause where it can be found out, else when max_runtime is over."""
        return {
            **self.named(),
            "asked": self.asked,
            "error_class": OF_ACCOUNT if self.of_account or self.outcome.error_class in OF_ACCOUNTS else "",
            "error_code": storable(self.outcome.error_code)[:LONGEST_CODE],
            "error_message": storable(self.outcome.error_message),
            "age_ms": self.flight.row["age_ms"],
            "pause_ms": self._pause_ms(),
            "over_ms": self.flight.over_ms,
        }

    def _wait_ms(self) -> int | None:
        """Of what nobody can ask for: where it is declared otherwise only by now, that may be put right."""
        return None if self.flight.declared_as_called else inquiry.LONGEST_PAUSE_MS

    def _pause_ms(self) -> int | None:
        row = self.flight.row
        if self.asked:
            early_ms = (
                self.flight.ways.find_after_ms - row["age_ms"] if self.outcome.error_code == "missing_early" else 0
            )
            failed = inquiry.pause_ms(self.flight.ways, row["asks_failed"], self.outcome.retry_after_ms)
            return max(1, math.ceil(early_ms)) if early_ms > 0 else failed
        way = self.flight.way
        if way == "wait":
            return self._wait_ms()
        if self.kind == "lost":
            return 0
        if way != "submit":
            return inquiry.FIRST_FIND_MS
        # A repeat that is told to wait waits: the few that are left must not be spent while all are refused.
        return max(
            pause_ms(row["retry"], row["sendings"] - 1), min(self.outcome.retry_after_ms or 0, inquiry.LONGEST_REST_MS)
        )

    @property
    def taken(self) -> bool:
        """Whether the upstream took the wish to cancel, or showed that it has nothing to cancel any more."""
        return not self.ends and self.outcome.verdict != UNKNOWN

    @property
    def asks_rest_ms(self) -> int:
        """How long the account is not to be asked, because it was asked too much."""
        if not self.asked or self.outcome.error_class != "busy":
            return 0
        return min(max(self.outcome.retry_after_ms or 0, BUSY_REST_MS), inquiry.LONGEST_REST_MS)

    def named(self) -> dict[str, Any]:
        """The attempt, with the fence that must still stand."""
        return {"id": self.flight.attempt_id, "fence": self.flight.fence}

    def rest_ms(self) -> int:
        """How long the session rests before its next job; 0: it is free at once. Retry-After is never shortened."""
        # Of an answer to an asking it speaks of the next asking.
        asked = (self.outcome.retry_after_ms or 0) if self.kind == "answer" else 0
        if self.outcome.error_class == "busy":
            asked = max(asked, BUSY_REST_MS)
        if self.outcome.error_class == "auth" and self.outcome.error_code == UNREADABLE:
            asked = max(asked, AUTH_REST_MS)
        return max(int(self.flight.row["cooldown_ms"]), min(asked, inquiry.LONGEST_REST_MS))

    def session(self) -> Mapping[str, Any]:
        """The session to let go, with the fence that must still stand."""
        return {"id": self.flight.resource_id, "fence": self.flight.fence}


def one_of_each(findings: Sequence[Finding]) -> list[Finding]:
    """Of several findings about one attempt the one that tells most: a proven success, an end, that it goes on."""
    by_worth = sorted(findings, key=lambda finding: (not finding.proven, not finding.ends, not finding.goes_on))
    kept: dict[tuple[int, int], Finding] = {}
    for finding in by_worth:
        kept.setdefault(finding.flight.fenced, finding)
    return list(kept.values())


def storable(value: Any) -> Any:
    """What PostgreSQL takes of it: texts without NUL and half surrogate pairs, numbers that are finite, else their text.

    An adapter's own code may hand in anything; one outcome that cannot be written would be written again for ever.
    """
    if value is None or isinstance(value, bool | int) or _is_json(value):
        return value
    try:
        return _cleaned(value)
    except RecursionError:
        return "nested too deeply"


def _is_json(value: Any) -> bool:
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return "\\u0000" not in text


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_cleaned(str(name)): _cleaned(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value if value is None or isinstance(value, bool | int) else str(value)[:LONGEST_TEXT]
