"""What a mapping makes of an answer that was recorded: the very functions that calls use, without a call."""

from typing import Final, Literal

from upstream import followed, mapping
from upstream.answer import Answer
from upstream.calls import Call, Outcome
from upstream.following import compile_callback, compile_cancel, compile_find, compile_poll
from upstream.request import scope_of
from upstream.spec import compile_submit
from upstream.wording import NoAnswer

Recorded = Literal["submit", "poll", "find", "cancel", "callback"]
ACTIONS: Final[tuple[Recorded, ...]] = ("submit", "poll", "find", "cancel", "callback")


def replayed(action: Recorded, call: Call, received: Answer | NoAnswer, repeat: bool = False) -> Outcome:
    """The Outcome. `repeat` is of a submit: its key may have been sent before. Raises SpecError for what is not declared."""
    if isinstance(received, str):
        return mapping.no_answer(received, repeat) if action == "submit" else followed.unanswered(received)
    scope, declared = scope_of(call), call.upstream
    if action == "submit":
        return mapping.read_answer(compile_submit(declared), call, scope, received, repeat)
    if action == "poll":
        return followed.read_poll(compile_poll(declared), call, scope, received)
    if action == "find":
        return followed.read_find(compile_find(declared), call, scope, received)
    if action == "cancel":
        return followed.read_cancel(compile_cancel(declared), call, scope, received)
    return followed.read_callback(compile_callback(declared), call, scope, received)
