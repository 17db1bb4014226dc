"""What is concluded from an answer, in one line."""

import json

from upstream.calls import Outcome

GOES_ON = "goes on"


def verdict_of(outcome: Outcome) -> str:
    return outcome.verdict or GOES_ON


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
        said.append(f"result of {len(json.dumps(outcome.result))} bytes")
    return ", ".join(said)
