"""What cannot be written by its own fault is told bare in the end; what somebody else's fault keeps back is kept whole."""

import threading

from tests.upstream.test_loop import until
from upstream.calls import Outcome
from upstream.outcomes import MOST_UNWRITABLE, OutcomeWriter, UnwritableError

GOOD = Outcome(over=True, verdict="succeeded", result={"text": "made"})


def written(fails: list[type[Exception]]) -> Outcome:
    """What is recorded in the end of an outcome whose first writings fail like this."""
    found: list[Outcome] = []

    def record(batch: list[tuple[int, Outcome]]) -> None:
        if fails:
            raise fails.pop(0)("no")
        found.append(batch[0][1])

    writer: OutcomeWriter[int] = OutcomeWriter(record, lambda _key: None)
    thread = threading.Thread(target=writer.run, daemon=True)
    thread.start()
    writer.put(1, GOOD)
    until(lambda: bool(found), seconds=20)
    writer.stop()
    thread.join(5)
    return found[0]


def test_what_can_never_be_written_is_unknown_in_the_end() -> None:
    bare = written([UnwritableError] * MOST_UNWRITABLE)
    assert (bare.over, bare.verdict, bare.result, bare.error_code) == (True, "unknown", None, "unwritable")


def test_what_others_keep_back_is_kept_whole() -> None:
    assert written([UnwritableError, RuntimeError, RuntimeError, UnwritableError, RuntimeError]) == GOOD
