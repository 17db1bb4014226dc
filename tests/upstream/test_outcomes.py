"""What cannot be written by its own fault is told bare in the end; what somebody else's fault keeps back is kept whole."""

import threading

import pytest

from tests.upstream.test_loop import until
from upstream.calls import Outcome
from upstream.outcomes import MOST_UNWRITABLE, OutcomeWriter, UnwritableError

GOOD = Outcome(over=True, verdict="succeeded", result={"text": "made"})


def written(fails: list[type[Exception]], *, apart: bool = False) -> Outcome:
    """What is recorded in the end of an outcome whose first writings fail like this; `apart`: those beside the writer, to
    which it is left as long as it has a result.
    """
    found: list[Outcome] = []

    def record(outcome: Outcome) -> None:
        if fails:
            raise fails.pop(0)("no")
        found.append(outcome)

    def record_at_once(batch: list[tuple[int, Outcome]]) -> set[int]:
        ((key, outcome),) = batch
        if apart and outcome.result is not None:
            return {key}
        record(outcome)
        return set()

    writer: OutcomeWriter[int] = OutcomeWriter(record_at_once, lambda _key: None, lambda _key, outcome: record(outcome))
    thread = threading.Thread(target=writer.run, daemon=True)
    thread.start()
    writer.put(1, GOOD)
    until(lambda: bool(found), seconds=20)
    writer.stop()
    thread.join(5)
    return found[0]


@pytest.mark.parametrize("apart", [False, True])
def test_what_can_never_be_written_is_unknown_in_the_end(apart: bool) -> None:
    bare = written([UnwritableError] * MOST_UNWRITABLE, apart=apart)
    assert (bare.over, bare.verdict, bare.result, bare.error_code) == (True, "unknown", None, "unwritable")


@pytest.mark.parametrize("apart", [False, True])
def test_what_others_keep_back_is_kept_whole(apart: bool) -> None:
    fails: list[type[Exception]] = [UnwritableError, RuntimeError, RuntimeError, UnwritableError, RuntimeError]
    assert written(fails, apart=apart) == GOOD
