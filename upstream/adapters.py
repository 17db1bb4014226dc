"""Adapters make calls. `http` is built in; others are found by name in the entry point group `berth.adapters`."""

from importlib.metadata import entry_points
from typing import Protocol, cast

from upstream.answer import Answer
from upstream.calls import Action, Call, Outcome

GROUP = "berth.adapters"


class Adapter(Protocol):
    """One instance serves one event loop. Each may run many times at once; whatever the upstream does is an Outcome.

    Only `submit` and `close` must be there: use `ask` and `hear` below, which say so of what is not.
    """

    async def submit(self, call: Call, repeat: bool) -> Outcome:
        """Starts the work. `repeat`: this key may have been sent before."""
        ...

    async def poll(self, call: Call) -> Outcome:
        """What the work under `call.reference` has come to: an empty verdict while it goes on, `over` with its end."""
        ...

    async def find(self, call: Call) -> Outcome:
        """The same by the dispatch key, with the reference; `over` and `not_executed` where it was never taken."""
        ...

    async def cancel(self, call: Call) -> Outcome:
        """Asks for its end: `over`, `failed` with the code `cancelled` when it is over; an empty verdict: asked for only."""
        ...

    def read_callback(self, call: Call, told: Answer) -> Outcome:
        """What a callback about the call says, as an answer to a poll would. Blocks for no input or output."""
        ...

    async def close(self) -> None: ...


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


async def ask(of: Adapter, action: Action, call: Call, repeat: bool = False) -> Outcome:
    """Does the action; unknown with the code `not_supported` where the adapter has none such."""
    if action == "submit":
        return await of.submit(call, repeat)
    if not hasattr(of, action):
        return _not_supported(action)
    outcome: Outcome = await getattr(of, action)(call)
    return outcome


def hear(of: Adapter, call: Call, told: Answer) -> Outcome:
    """Reads a callback; unknown with the code `not_supported` where the adapter cannot."""
    return of.read_callback(call, told) if hasattr(of, "read_callback") else _not_supported("callback")


def _not_supported(what: str) -> Outcome:
    return Outcome(
        over=False,
        verdict="unknown",
        error_code="not_supported",
        error_message=f"the adapter of this pool knows no {what}",
    )
