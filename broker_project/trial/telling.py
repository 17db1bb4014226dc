"""Says the steps of a trial as they come; what repeats itself, such as a poll that finds nothing new, is counted."""

import time
from collections.abc import Callable
from typing import Final

from broker_project.trial.live import WAIT, Step
from upstream.quantities import counted

FIRST_TOLD_SECONDS: Final = 10.0  # of repetitions: how many by then; each further pause is twice as long


class Telling:
    """What was tried of which account and type. `write` takes a line, `alarm` makes one stand out."""

    def __init__(self, write: Callable[[str], object], alarm: Callable[[str], str]) -> None:
        self._write, self._alarm = write, alarm
        self._last: tuple[str, Step] | None = None
        self._repeats = 0
        self._pause_seconds, self._told_at = FIRST_TOLD_SECONDS, 0.0
        self.problems = 0
        self.asked = False  # whether the upstream was asked anything
        self.broken = ""  # the first answer that says that the upstream itself failed

    def step(self, where: str, step: Step) -> None:
        """A step, or that one is waited for."""
        self.problems += bool(step.problem)
        if step.name == WAIT:
            self._wait(step)
            return
        self.asked |= step.name != "compile"
        if step.broken:
            self.broken = self.broken or f"{step.name} -> {step.broken}"
        if (where, step) == self._last:
            self._repeats += 1
            self._tell_repeats_now_and_then()
            return
        self.end()
        self._last = (where, step)
        self._told_at, self._pause_seconds = time.monotonic(), FIRST_TOLD_SECONDS
        self._write(f"{where}  {step.name}  {step.asked}".rstrip())
        if step.found:
            self._write(f"    {step.found}")
        if step.problem:
            self._write(self._alarm(f"    PROBLEM: {step.problem}"))

    def end(self) -> None:
        """Nothing like the last step follows."""
        if self._repeats:
            self._write(f"    the same {counted(self._repeats, 'time', 'times')} more")
        self._repeats, self._last = 0, None

    def conclusion(self) -> str:
        """What all that was said means, in one line."""
        if not self.problems:
            return ""
        steps = counted(self.problems, "step is a problem", "steps are problems")
        mend = "what is declared, or the account, has to be mended"
        if self.broken:
            return f"{steps}: the upstream itself failed ({self.broken}), perhaps on what it was sent; or {mend}"
        return f"{steps}: {mend}"

    def _wait(self, step: Step) -> None:
        if self._repeats:
            self._tell_repeats_now_and_then()
        else:
            self._write(f"    … {step.found}")

    def _tell_repeats_now_and_then(self) -> None:
        if time.monotonic() - self._told_at >= self._pause_seconds:
            self._write(f"    … the same {counted(self._repeats, 'time', 'times')} so far")
            self._told_at, self._pause_seconds = time.monotonic(), 2 * self._pause_seconds
