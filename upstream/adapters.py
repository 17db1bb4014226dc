"""Adapters make calls. `http` is built in; others are found by name in the entry point group `berth.adapters`."""

from importlib.metadata import entry_points
from typing import Protocol, cast

from upstream.answer import Answer
from upstream.calls import Action, Call, Outcome

GROUP = "berth.adapters"


class Adapter(Protocol):
    """One instance serves one event loop. `submit` may run many times at once."""

    async def submit(self, call: Call, repeat: bool) -> Outcome:
        """Makes the call; whatever the upstream does is an Outcome. `repeat`: this key may have been sent before."""
        ...

    async def poll(self, call: Call) -> Outcome:
        """Asks how the work called `call.reference` stands."""
        ...

    async def find(self, call: Call) -> Outcome:
        """Asks what became of the sending of `call.key`."""
        ...

    async def cancel(self, call: Call) -> Outcome:
        """Asks to stop the work. Over and failed: it was cancelled; an empty verdict: the wish was taken."""
        ...

    def read_callback(self, call: Call, answer: Answer) -> Outcome:
        """What the upstream's own request to `call.callback_url` says."""
        ...

    async def close(self) -> None: ...


NOT_SUPPORTED = Outcome(
    over=False, verdict="unknown", error_code="not_supported", error_message="the adapter cannot ask for that"
)


async def make(made_by: Adapter, action: Action, call: Call, repeat: bool) -> Outcome:
    """Makes the call. An adapter that can only submit says of everything else that it does not know."""
    if action == "submit":
        return await made_by.submit(call, repeat)
    ask = getattr(made_by, action, None)
    return NOT_SUPPORTED if ask is None else cast(Outcome, await ask(call))


class UnknownAdapterError(LookupError):
    """No adapter of that name is installed."""


def adapter(name: str) -> Adapter:
    """A new adapter of that name, made without arguments; raises UnknownAdapterError."""
    if name == "http":
        # Here and not by entry point, so that it is there also when Berth runs from its folder without being installed.
        from upstream.http import HttpAdapter

        return HttpAdapter()
    for found in entry_points(group=GROUP, name=name):
        return cast(Adapter, found.load()())
    raise UnknownAdapterError(f"there is no adapter {name!r}; install a package with an entry point in group {GROUP!r}")
