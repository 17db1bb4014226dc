"""In which order a sweep goes through the table: from the top, or on from where the one before had to end.

A step that takes longer than the lock of a sweep lasts ends that sweep. Were each to begin at the top, what comes after
such a step would never be reached: so what was done last comes last, and a slow step only delays the others.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from jobs.flow import Arguments, Step


class Place(NamedTuple):
    """A step, and the first of the arguments that it was done with: of a pool, say, the id."""

    step: Step
    first: Arguments


def of(
    steps: Sequence[Step], missed: Callable[[Step], list[Arguments]], after: Place | None
) -> Iterator[tuple[Step, Arguments]]:
    """All that is to be done, asked for step by step, beginning after this place and going round."""
    if after is None or after.step not in steps:
        for step in steps:
            yield from _each(step, missed(step))
        return
    number = steps.index(after.step)
    found = missed(after.step)
    yield from _each(after.step, found[_passed(found, after) :])
    for step in (*steps[number + 1 :], *steps[:number]):
        yield from _each(step, missed(step))
    found = missed(after.step)
    yield from _each(after.step, found[: _passed(found, after)])


def _each(step: Step, found: Sequence[Arguments]) -> Iterator[tuple[Step, Arguments]]:
    return ((step, arguments) for arguments in found)


def _passed(found: Sequence[Arguments], after: Place) -> int:
    """How many of them were done before; all, where the place is not among them any more."""
    firsts = [arguments[:1] for arguments in found]
    return firsts.index(after.first) + 1 if after.first in firsts else len(firsts)
