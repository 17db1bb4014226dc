"""What is concluded from an answer, in one line."""

import json
from typing import Final

from upstream.calls import Outcome
from upstream.quantities import counted

RUNNING: Final = "running"  # the word for a verdict that is none yet


def verdict_of(outcome: Outcome) -> str:
    return outcome.verdict or RUNNING


# An end or a doubt that the declaration made, not the upstream: what it says was not understood, or could not be used.
OF_THE_MAPPING: Final[dict[str, str]] = {
    "mapping_error": "an expression could not be evaluated, or two contrary ones claim the answer",
    "unknown_answer": "no expression claims the answer",
    "unreadable_answer": "the answer cannot be read",
    "empty_reference": "submit.reference finds no name to ask for",
    "result_unavailable": "result_files finds no link that may be followed",
    "not_supported": "the adapter cannot do what is declared",
}


def mistake(outcome: Outcome) -> str:
    """What is wrong with the declaration, by what was concluded from an answer; empty where nothing is."""
    if why := OF_THE_MAPPING.get(outcome.error_code):
        return f"{why} ({outcome.error_code})"
    return f"what was used cannot be told: {outcome.usage_problem}" if outcome.usage_problem else ""


def in_words(outcome: Outcome) -> str:
    """Verdict, whether the session is over, and what was taken from the answer; the result by its size alone."""
    said = [verdict_of(outcome), "session over" if outcome.over else "session not known to be over"]
    if not outcome.over and not outcome.verdict:
        said[1:] = []
    if outcome.error_code:
        said.append(f"code {outcome.error_code}" + (f" ({outcome.error_class})" if outcome.error_class else ""))
    if outcome.error_message:
        said.append(repr(outcome.error_message[:120]))
    for name in ("reference", "progress", "units", "cost", "usage_problem", "retry_after_ms"):
        value = getattr(outcome, name)
        if value not in (None, ""):
            said.append(f"{name} {value}")
    if outcome.verdict in ("succeeded", "partial"):
        said.append(f"result of {len(json.dumps(outcome.result))} bytes" if outcome.files is None else _files(outcome))
    return ", ".join(said)


def _files(outcome: Outcome) -> str:
    return f"a result behind {counted(len(outcome.files or {}), 'link')}, not fetched here"
