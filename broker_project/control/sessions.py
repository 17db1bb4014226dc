"""What an operator may do to sessions: one by one, or all those of an account or a pool."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.utils import timezone
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminTextInputWidget

from broker_project.control.words import several
from pool import transitions
from pool.judging import REFUSED
from pool.models import Resource
from statemachine.operations import Effect, Operation, Refused

LONGEST_REASON = 300
LONGEST_MINUTES = int(transitions.LONGEST_QUARANTINE_SECONDS // 60)
_RUNS = ("reserved", "busy")


class Why(forms.Form):
    """The reason, for whoever finds the session so."""

    reason = forms.CharField(
        max_length=LONGEST_REASON,
        widget=UnfoldAdminTextInputWidget,
        help_text="Shown at the session, with your name.",
    )


class WhyAndHowLong(Why):
    """A quarantine ends by itself."""

    minutes = forms.IntegerField(
        min_value=1,
        max_value=LONGEST_MINUTES,
        initial=30,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=f"From now; at most {LONGEST_MINUTES} (30 days). A longer rest stays.",
    )


class SessionsOperation(Operation):
    """Acts on the sessions of a row: `of` finds them."""

    then: ClassVar[str]  # what the sessions will do
    done: ClassVar[str]  # what they were

    def __init__(self, of: Callable[[Any], Any]) -> None:
        self.of = of

    def concerns(self, row: Any) -> bool:
        return any(self.changes(session, {"minutes": LONGEST_MINUTES}) for session in self.of(row))

    def effects(self, rows: Sequence[Any], data: Mapping[str, Any]) -> list[Effect]:
        return [self._effect(row, list(self.of(row)), data) for row in rows]

    def perform(self, row: Any, data: Mapping[str, Any]) -> str:
        ids = [session.pk for session in self.of(row)]
        changed = self.act(ids, data)
        if not changed:
            raise Refused("nothing was left to change")
        return f"{several(changed, 'session')} {self.done}"

    def act(self, ids: Sequence[int], data: Mapping[str, Any]) -> int:
        """Takes the verb; how many sessions changed."""
        raise NotImplementedError

    def changes(self, session: Resource, data: Mapping[str, Any]) -> bool:
        """Whether there is something left to change at this session."""
        raise NotImplementedError

    def _effect(self, row: Any, found: Sequence[Resource], data: Mapping[str, Any]) -> Effect:
        now = ", ".join(f"{number} {state}" for state, number in sorted(Counter(map(_standing, found)).items()))
        changing = [session for session in found if self.changes(session, data)]
        if not changing:
            return Effect(row, now or "no sessions", "", "nothing is left to change")
        running = sum(session.state in _RUNS for session in changing)
        later = f", {running} of them when what runs there has ended" if running else ""
        return Effect(row, now, f"{several(len(changing), 'session')} {self.then.format(**data)}{later}")


class Drain(SessionsOperation):
    """Nothing new begins; what runs ends."""

    name, title, icon, form = "drain", "Drain", "water_drop", Why
    says = "Nothing new begins on these sessions; what runs on them ends as usual."
    then, done = "will accept no job", "drained"

    def act(self, ids: Sequence[int], data: Mapping[str, Any]) -> int:
        return transitions.drain(ids, _note(data))

    def changes(self, session: Resource, data: Mapping[str, Any]) -> bool:
        return session.accepting


class Disable(SessionsOperation):
    """Offline, at once or when what runs has ended."""

    name, title, icon, form = "disable", "Disable", "block", Why
    says = "The sessions go offline: at once, or when the job that runs on them has ended. Enable puts them back."
    then, done = "will go offline", "disabled"

    def act(self, ids: Sequence[int], data: Mapping[str, Any]) -> int:
        return transitions.disable(ids, _note(data))

    def changes(self, session: Resource, data: Mapping[str, Any]) -> bool:
        return not session.disabled


class Quarantine(SessionsOperation):
    """A rest with an end."""

    name, title, icon, form = "quarantine", "Quarantine", "timer_pause", WhyAndHowLong
    says = "The sessions rest for a time: from now, or from when the job that runs on them has ended."
    then, done = "will rest until {minutes} minutes from now", "quarantined"

    def act(self, ids: Sequence[int], data: Mapping[str, Any]) -> int:
        return transitions.quarantine(ids, timedelta(minutes=data["minutes"]).total_seconds(), _note(data))

    def changes(self, session: Resource, data: Mapping[str, Any]) -> bool:
        until = timezone.now() + timedelta(minutes=data["minutes"])
        return not session.disabled and (session.rest_until is None or session.rest_until < until)


class EndRest(SessionsOperation):
    """A rest that is over now, whoever asked for it."""

    name, title, icon = "end-rest", "End the rest", "alarm_off"
    says = (
        "Sessions that rest take the next job now, also where the upstream asked for a longer rest: it may refuse."
        " Drained and disabled ones stay so."
    )
    then, done = "will rest no longer", "rest no longer"

    def act(self, ids: Sequence[int], data: Mapping[str, Any]) -> int:
        return transitions.end_rest(ids)

    def changes(self, session: Resource, data: Mapping[str, Any]) -> bool:
        wanted = (session.rest_until, session.asked_until, session.broken_until)
        return session.state == "cooldown" or any(until and until > timezone.now() for until in wanted)


class Enable(SessionsOperation):
    """Takes back drain, disable and quarantine, whoever took the session out."""

    name, title, icon = "enable", "Enable", "play_circle"
    says = (
        "Drained, disabled and quarantined sessions take jobs again, also where the upstream refused the account or the"
        " breaker opened. A rest that outlasts the quarantine goes on."
    )
    then, done = "will take jobs", "enabled"

    def act(self, ids: Sequence[int], data: Mapping[str, Any]) -> int:
        return transitions.enable(ids)

    def changes(self, session: Resource, data: Mapping[str, Any]) -> bool:
        may_accept = session.number <= session.account.sessions
        rests = session.rest_until is not None or session.broken_until is not None
        return session.disabled or rests or session.accepting != may_accept

    def _effect(self, row: Any, found: Sequence[Resource], data: Mapping[str, Any]) -> Effect:
        """A new credential puts refused sessions back by itself: those that are still out have the one that was refused."""
        effect = super()._effect(row, found, data)
        refused = [session for session in found if session.refused]
        if not refused:
            return effect
        reasons = sorted({session.note.removeprefix(REFUSED) for session in refused})
        which = "one" if len(refused) == len(found) else f"one of {several(len(refused), 'session')}"
        same = f"The credential, {which} that the upstream refused ({'; '.join(reasons)}), is still the same"
        return replace(effect, then=f"{effect.then}. {same}: it is refused again unless it works now.")


def all_of(of: Callable[[Any], Any]) -> list[Operation]:
    """The operations, acting on the sessions that `of` finds for a row."""
    return [Drain(of), Enable(of), Quarantine(of), EndRest(of), Disable(of)]


def _note(data: Mapping[str, Any]) -> str:
    return f"{data['reason']} ({data['actor']})"


def _standing(session: Resource) -> str:
    return session.state if session.accepting else f"{session.state}, draining"
