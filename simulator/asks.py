"""What a caller's body asks for: any JSON object, of which a few fields are honoured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator.refusals import Refused
from simulator.times import seconds

MOST_UNITS = 1e9


@dataclass(frozen=True, slots=True)
class Ask:
    duration_seconds: float | None
    units: float
    callback_url: str
    sim: Mapping[str, Any] | None
    echo: Any

    @classmethod
    def parse(cls, raw: bytes) -> Ask:
        """`seconds` or `latency_ms`, `units`, `callback_url`, `sim` (faults), `echo`. Else Refused(400)."""
        try:
            body = json.loads(raw)
        except ValueError as error:
            raise Refused(400, "bad_json", "the body is not JSON") from error
        if not isinstance(body, dict):
            raise Refused(400, "bad_body", "the body must be a JSON object")
        sim, callback_url = body.get("sim"), body.get("callback_url") or ""
        if not isinstance(sim, dict | None) or not isinstance(callback_url, str):
            raise Refused(400, "bad_body", "sim must be an object and callback_url a text")
        return cls(_duration_seconds(body), _units(body), callback_url, sim, body.get("echo"))


def _duration_seconds(body: Mapping[str, Any]) -> float | None:
    try:
        if (latency_ms := body.get("latency_ms")) is not None:
            return seconds(latency_ms / 1000)
        return None if body.get("seconds") is None else seconds(body["seconds"])
    except (ValueError, TypeError) as error:
        raise Refused(400, "bad_latency", f"seconds or latency_ms: {error}") from error


def _units(body: Mapping[str, Any]) -> float:
    units = body.get("units", 1)
    if isinstance(units, bool) or not isinstance(units, int | float) or not 0 <= units <= MOST_UNITS:
        raise Refused(400, "bad_units", f"units must be a number from 0 to {MOST_UNITS:.0f}")
    return units
