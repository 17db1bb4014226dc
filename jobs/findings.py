"""A flight is an attempt on its way to the upstream; a finding is what became known of it."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from uuid import UUID

from credits import pricing
from jobs.states import PROVEN, UNKNOWN
from jobs.verdicts import CRASH_BUDGET, DEFAULT_RETRY, OPERATOR, pause_ms
from statemachine.sql import Row
from upstream.calls import Outcome

BUSY_REST_MS = 1_000
AUTH_REST_MS = 30_000
LONGEST_TEXT = 1_000  # characters of what is no JSON
LONGEST_CODE = 50  # characters of an error code that are kept, whichever adapter gave it
LONGEST_REST_MS = 3_600_000  # an upstream may ask for more; an hour is what we grant


@dataclass(frozen=True)
class Flight:
    """An open attempt with all that its call, its lease and its end need. `row` is one of `queries.flights`."""

    attempt_id: int
    fence: int
    job_id: UUID
    resource_id: int
    row: Row

    @property
    def idempotent(self) -> bool:
        """Whether the upstream deduplicates by the dispatch key, so that the same attempt may be sent again."""
        return bool(self.row["type_upstream"].get("submit", {}).get("idempotent", False))

    @property
    def may_send_again(self) -> bool:
        """Whether an unknown outcome may be found out by sending the same key once more."""
        attempts = int({**DEFAULT_RETRY, **self.row["retry"]}["attempts"])
        return self.idempotent and self.row["sendings"] <= attempts and self.row["crashes"] < CRASH_BUDGET

    @property
    def waited_out(self) -> bool:
        """Whether max_runtime has passed since it was last sent, so that the upstream session is certainly over."""
        return bool(self.row["waited_out"])

    @property
    def repeat(self) -> bool:
        """Whether its key may have been received before."""
        return int(self.row["sendings"]) > 1


@dataclass(frozen=True)
class Finding:
    """What is now known of a flight, and from whom (`answer`, `lost`, `waited`, `operator`). `said` is kept with it."""

    flight: Flight
    outcome: Outcome
    kind: str = "answer"
    said: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def worker_lost(cls, flight: Flight) -> "Finding":
        """Its lease ended: the worker is gone, the call may have been received."""
        return cls(flight, Outcome(over=False, verdict="unknown", error_code="worker_lost"), "lost")

    @classmethod
    def still_unknown(cls, flight: Flight) -> "Finding":
        """It was to be looked at, and nothing new can be known before max_runtime has passed."""
        return cls(flight, Outcome(over=False, verdict="unknown", error_code=flight.row["error_code"]), "waited")

    @classmethod
    def waited_out(cls, flight: Flight) -> "Finding":
        """max_runtime has passed: the session is over, what it did stays unknown."""
        code = flight.row["error_code"] or "outcome_unknown"
        return cls(flight, Outcome(over=True, verdict="unknown", error_code=code), "waited")

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
        """Whether the session is to be let go: it is over, and there is nothing to find out by sending again."""
        unknown = self.outcome.verdict == UNKNOWN
        return self.outcome.over and not (unknown and self.kind == "answer" and self.flight.may_send_again)

    def evidence(self) -> dict[str, Any]:
        """The row that is kept whoever comes late."""
        names = [each.name for each in fields(self.outcome) if each.name not in ("result", "content")]
        known = {name: getattr(self.outcome, name) for name in names}
        content = {name: _storable(value) for name, value in {**known, **self.said}.items() if value not in (None, "")}
        return {"id": self.flight.attempt_id, "fence": self.flight.fence, "kind": self.kind, "content": content}

    def end(self) -> dict[str, Any]:
        """The attempt's last columns."""
        known = {
            name: _storable(getattr(self.outcome, name))
            for name in (
                *("verdict", "error_class", "error_code", "error_message", "retry_after_ms"),
                *("units", "usage_problem", "result"),
            )
        }
        known["reported_cost"], odd = self._reported_cost()
        if known["units"] is None and self.outcome.units is not None:
            odd = odd or f"units: {self.outcome.units}"
        known["usage_problem"] = known["usage_problem"] or odd
        reference = _storable(self.outcome.reference) or self.flight.row["reference"]
        known["error_code"] = known["error_code"][:LONGEST_CODE]
        if self.kind == OPERATOR and self.outcome.verdict == UNKNOWN:
            known["error_class"] = OPERATOR
        return {"id": self.flight.attempt_id, "fence": self.flight.fence, "reference": reference, **known}

    def late(self) -> dict[str, Any]:
        """What a success is remembered by that came when its attempt was not to be ended by it any more."""
        reference = _storable(self.outcome.reference) or self.flight.row["reference"]
        return {"id": self.flight.attempt_id, "units": _storable(self.outcome.units), "reference": reference}

    def _reported_cost(self) -> tuple[int | None, str]:
        """In micro-credits, and why it could not be believed."""
        try:
            return None if self.outcome.cost is None else pricing.to_micro(self.outcome.cost), ""
        except pricing.PriceError as error:
            return None, f"cost: {error}"

    def doubt(self) -> dict[str, Any]:
        """When to look again: after a pause where it may be sent again, else when max_runtime is over."""
        row = self.flight.row
        pause = pause_ms(row["retry"], row["sendings"] - 1) if self.flight.may_send_again else None
        return {
            "id": self.flight.attempt_id,
            "fence": self.flight.fence,
            "error_code": _storable(self.outcome.error_code)[:LONGEST_CODE],
            "error_message": _storable(self.outcome.error_message),
            "pause_ms": 0 if self.kind == "lost" and pause is not None else pause,
            "max_runtime_ms": row["max_runtime_ms"],
        }

    def rest_ms(self) -> int:
        """How long the session rests before its next job; 0: it is free at once. Retry-After is never shortened."""
        asked = self.outcome.retry_after_ms or 0
        if self.outcome.error_class == "busy":
            asked = max(asked, BUSY_REST_MS)
        if self.outcome.error_class == "auth":
            asked = max(asked, AUTH_REST_MS)
        return max(int(self.flight.row["cooldown_ms"]), min(asked, LONGEST_REST_MS))

    def session(self) -> Mapping[str, Any]:
        """The session to let go, with the fence that must still stand."""
        return {"id": self.flight.resource_id, "fence": self.flight.fence}


def _storable(value: Any) -> Any:
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
