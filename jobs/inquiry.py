"""How the outcome of a call is learned next, and when: a pure decision, no database.

A poll is best, for it speaks of this very task. Without a reference the upstream is asked for the dispatch key. Where
it deduplicates, the same key may be sent again. Where none of this is declared, only time tells.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from upstream.ways import Ways

Way = Literal["poll", "find", "submit", "wait"]

FINDS_BEFORE_SENDING: Final = 3  # unanswered ones; then the same key is sent again, where that is allowed
FIRST_FIND_MS: Final = 1_000
LONGEST_PAUSE_MS: Final = 60_000  # between two askings that told nothing
LONGEST_REST_MS: Final = 3_600_000  # an upstream may ask for more; an hour is what we grant
CANCEL_PAUSE_MS: Final = 5_000
MOST_CANCELS: Final = 5  # that were not answered; then what runs is waited for
WAIT_FOR_REFERENCE_MS: Final = 1_000


def way(row: Mapping[str, Any], ways: Ways, may_send_again: bool) -> Way:
    """The next way for a flight (its row), whose outcome is not known."""
    failed = row["asks_failed"]
    accepted = row["phase"] == "accepted"
    polls = ways.polls and (bool(row["reference"]) or not ways.poll_needs_reference)
    # A poll that tells nothing may ask for a name that the upstream has forgotten, or never gave.
    if polls and not (ways.finds and failed % 2):
        return "poll"
    if ways.finds and (accepted or failed < FINDS_BEFORE_SENDING or not may_send_again):
        return "find"
    return "submit" if may_send_again and not accepted else "wait"


def pause_ms(ways: Ways, failed: int, asked_to_wait_ms: int | None = None) -> int:
    """How long after an asking the next one is due; `failed` in a row told nothing, and Retry-After is kept."""
    growing: int = ways.every_ms * 2 ** min(failed, 16)
    asked = min(asked_to_wait_ms or 0, LONGEST_REST_MS)
    return max(min(growing, max(ways.every_ms, LONGEST_PAUSE_MS)), asked)


def cancel_pause_ms(cancels: int) -> int | None:
    """How long after the `cancels`th request to cancel the next is made, if nobody answers; None: that was the last."""
    pause: int = CANCEL_PAUSE_MS * 2 ** (cancels - 1)
    return None if cancels >= MOST_CANCELS else pause
