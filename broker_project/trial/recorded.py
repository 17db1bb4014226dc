"""Answers that were recorded, read from a file: YAML, or JSON by lines. All mistakes are told, each with place and value."""

import difflib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from broker_project.trial.wording import RUNNING, verdict_of
from upstream import answer
from upstream.answer import Answer
from upstream.calls import Outcome
from upstream.replaying import ACTIONS, Recorded
from upstream.wording import NO_ANSWER, NoAnswer

MAX_BYTES: Final = 50_000_000
FIELDS: Final = (
    *("type", "action", "status", "headers", "body", "no_answer"),
    *("repeat", "payload", "reference", "key", "expect"),
)
GOES_ON: Final = "goes on"  # what files of an earlier version call running
LONGEST_VALUE: Final = 60
EXPECTED: Final = ("verdict", "over", "error_class", "error_code", "reference", "progress", "units", "cost", "result")
VERDICTS: Final = (RUNNING, "succeeded", "partial", "failed", "not_executed", "unknown")


class RecordingRefused(ValueError):
    """The file cannot be read as recorded answers; a line for each mistake."""


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


def read_recordings(path: Path, known_types: Collection[str]) -> list[Recording]:
    """Raises RecordingRefused. `known_types`: what an answer may be of."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise RecordingRefused(f"{path} is larger than {MAX_BYTES} bytes")
        found = _lines(raw.decode()) if path.suffix in (".jsonl", ".ndjson") else yaml.safe_load(raw)
    except RecordingRefused:
        raise
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise RecordingRefused(f"{path} cannot be read: {error}") from None
    if not isinstance(found, list):
        raise RecordingRefused(
            f"{path} must be a list of answers (or JSON by lines, in a file named .jsonl), not {_shown(found)}"
        )
    if mistakes := [
        said for number, written in enumerate(found, 1) for said in _mistakes(number, written, known_types)
    ]:
        raise RecordingRefused("\n".join(mistakes))
    return [_recording(number, written) for number, written in enumerate(found, 1)]


def _lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _mistakes(number: int, written: Any, known_types: Collection[str]) -> Iterator[str]:
    """What is wrong with one answer, as `answer 3: expect.verdict: …`."""
    if not isinstance(written, dict):
        yield f"answer {number}: must be a map of {', '.join(FIELDS)}, not {_shown(written)}"
        return
    for place, problem in (*_of_fields(written, known_types), *_of_expectation(written.get("expect"))):
        yield f"answer {number}: {place}: {problem}"


def _of_fields(written: dict[Any, Any], known_types: Collection[str]) -> Iterator[tuple[str, str]]:
    for name in written:
        if name not in FIELDS:
            yield str(name), f"is not known{_meant(str(name), FIELDS)}"
    kind, action, why, status = (written.get(name) for name in ("type", "action", "no_answer", "status"))
    if kind not in list(known_types):
        yield "type", f"must be a job type that is stored{_meant(kind, known_types)}; this is {_shown(kind)}"
    if action not in ACTIONS:
        yield "action", f"must be one of {', '.join(ACTIONS)}; this is {_shown(action)}"
    if why is not None and why not in list(NO_ANSWER):
        yield "no_answer", f"must be one of {', '.join(NO_ANSWER)}; this is {_shown(why)}"
    missing = status is None and why is None and action != "callback"
    if missing or (status is not None and (isinstance(status, bool) or not isinstance(status, int))):
        yield "status", f"must be a number, or no_answer given in its place; this is {_shown(status)}"
    if not isinstance(written.get("headers"), dict | None):
        yield "headers", f"must be a map; this is {_shown(written['headers'])}"
    if not isinstance(written.get("repeat"), bool | None):
        yield "repeat", f"must be true or false; this is {_shown(written['repeat'])}"


def _of_expectation(expect: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(expect, str | dict | None):
        yield "expect", f"must be a verdict, or a map of {', '.join(EXPECTED)}; this is {_shown(expect)}"
    named = expect if isinstance(expect, dict) else {}
    for name in named:
        if name not in EXPECTED:
            yield f"expect.{name}", f"is not known{_meant(str(name), EXPECTED)}"
    verdict = expect if isinstance(expect, str) else named.get("verdict", RUNNING)
    if verdict not in (*VERDICTS, GOES_ON):
        place = "expect" if isinstance(expect, str) else "expect.verdict"
        yield place, f"must be one of {', '.join(VERDICTS)}; this is {_shown(verdict)}"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    written = json.dumps(value, ensure_ascii=False, default=str)
    return written if len(written) <= LONGEST_VALUE else f"{written[:LONGEST_VALUE]}…"


def _meant(name: Any, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, 1) if isinstance(name, str) else []
    return f" (did you mean {close[0]}?)" if close else f" (known: {', '.join(sorted(known)) or 'none'})"


def _recording(number: int, written: dict[str, Any]) -> Recording:
    return Recording(
        number=number,
        type=written["type"],
        action=written["action"],
        received=_received(written),
        repeat=written.get("repeat") is True,
        payload=written.get("payload", {}),
        reference=str(written.get("reference") or ""),
        key=str(written.get("key") or "recorded"),
        expect=_expected(written.get("expect")),
    )


def _received(written: dict[str, Any]) -> Answer | NoAnswer:
    if (why := written.get("no_answer")) is not None:
        found: NoAnswer = why
        return found
    status = written.get("status") or 200  # a callback has none
    named = {str(name).lower(): str(value) for name, value in (written.get("headers") or {}).items()}
    body = written.get("body")
    if isinstance(body, str):  # as it came: a text that promises JSON is read as such
        return answer.read(status, named, body.encode())
    return answer.read(status, named | {"content-type": "application/json"}, b"" if body is None else _json(body))


def _json(body: Any) -> bytes:
    return json.dumps(body, default=str).encode()


def _expected(written: Any) -> dict[str, Any]:
    expect = {"verdict": written} if isinstance(written, str) else written or {}
    return {name: RUNNING if (name, want) == ("verdict", GOES_ON) else want for name, want in expect.items()}
