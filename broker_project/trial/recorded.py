"""Answers that were recorded, read from a file: YAML, or JSON by lines. A mistake in it is named by its number."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from broker_project.trial.wording import GOES_ON, verdict_of
from upstream import answer
from upstream.answer import Answer
from upstream.calls import Outcome
from upstream.replaying import ACTIONS, Recorded
from upstream.wording import NO_ANSWER, NoAnswer

MAX_BYTES: Final = 50_000_000
FIELDS: Final = frozenset(
    {"type", "action", "status", "headers", "body", "no_answer", "repeat", "payload", "reference", "key", "expect"}
)
EXPECTED: Final = ("verdict", "over", "error_class", "error_code", "reference", "progress", "units", "cost", "result")
VERDICTS: Final = (GOES_ON, "running", "succeeded", "partial", "failed", "not_executed", "unknown")


class RecordingRefused(ValueError):
    """The file cannot be read as recorded answers."""


@dataclass(frozen=True)
class Recording:
    """One answer, or why there was none, with the call it belongs to, and what somebody expects of it."""

    number: int
    type: str
    action: Recorded
    received: Answer | NoAnswer
    repeat: bool
    payload: Any
    reference: str
    key: str
    expect: dict[str, Any]

    @property
    def came(self) -> str:
        return self.received if isinstance(self.received, str) else str(self.received.status)

    def differences(self, outcome: Outcome) -> list[str]:
        """What is expected and is not so."""
        found = {name: getattr(outcome, name) for name in EXPECTED} | {"verdict": verdict_of(outcome)}
        return [f"{name}: {found[name]!r}, not {want!r}" for name, want in self.expect.items() if found[name] != want]


def read_recordings(path: Path) -> list[Recording]:
    """Raises RecordingRefused."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise RecordingRefused(f"{path} is larger than {MAX_BYTES} bytes")
        found = _lines(raw.decode()) if path.suffix in (".jsonl", ".ndjson") else yaml.safe_load(raw)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise RecordingRefused(f"{path} cannot be read: {error}") from None
    if not isinstance(found, list):
        raise RecordingRefused(f"{path} is a list of answers, or JSON by lines in a file named .jsonl")
    return [_recording(number, written) for number, written in enumerate(found, 1)]


def _lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _recording(number: int, written: Any) -> Recording:
    if not isinstance(written, dict):
        raise RecordingRefused(f"answer {number} is a map of {', '.join(sorted(FIELDS))}")
    if unknown := sorted(set(written) - FIELDS):
        raise RecordingRefused(f"answer {number}: {unknown[0]} is not known; known are {', '.join(sorted(FIELDS))}")
    if not isinstance(written.get("type"), str) or written.get("action") not in ACTIONS:
        raise RecordingRefused(f"answer {number} needs a type, and an action of {', '.join(ACTIONS)}")
    return Recording(
        number=number,
        type=written["type"],
        action=written["action"],
        received=_received(number, written),
        repeat=written.get("repeat") is True,
        payload=written.get("payload", {}),
        reference=str(written.get("reference") or ""),
        key=str(written.get("key") or "recorded"),
        expect=_expected(number, written.get("expect")),
    )


def _received(number: int, written: dict[str, Any]) -> Answer | NoAnswer:
    if (why := written.get("no_answer")) is not None:
        if why not in NO_ANSWER:
            raise RecordingRefused(f"answer {number}: no_answer is one of {', '.join(NO_ANSWER)}")
        found: NoAnswer = why
        return found
    status = written.get("status", 200 if written["action"] == "callback" else None)
    headers = written.get("headers") or {}
    if not isinstance(status, int) or not isinstance(headers, dict):
        raise RecordingRefused(f"answer {number} needs a status, a number, and headers as a map; or no_answer")
    named = {str(name).lower(): str(value) for name, value in headers.items()}
    body = written.get("body")
    if isinstance(body, str):  # as it came: a text that promises JSON is read as such
        return answer.read(status, named, body.encode())
    return answer.read(status, named | {"content-type": "application/json"}, b"" if body is None else _json(body))


def _json(body: Any) -> bytes:
    return json.dumps(body, default=str).encode()


def _expected(number: int, written: Any) -> dict[str, Any]:
    expect = {"verdict": written} if isinstance(written, str) else written or {}
    if not isinstance(expect, dict) or not set(expect) <= set(EXPECTED):
        raise RecordingRefused(f"answer {number}: expect is a verdict, or a map of {', '.join(EXPECTED)}")
    if "verdict" in expect and expect["verdict"] not in VERDICTS:
        raise RecordingRefused(f"answer {number}: a verdict is one of {', '.join(VERDICTS)}")
    return {name: GOES_ON if want == "running" and name == "verdict" else want for name, want in expect.items()}
