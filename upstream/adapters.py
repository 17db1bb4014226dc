"""Adapters make calls. `http` is built in; others are found by name in the entry point group `berth.adapters`."""

from importlib.metadata import entry_points
from typing import Protocol, cast

from upstream.calls import Call, Outcome

GROUP = "berth.adapters"


class Adapter(Protocol):
    """One instance serves one event loop. `submit` may run many times at once."""

    async def submit(self, call: Call, repeat: bool) -> Outcome:
        """Makes the call; whatever the upstream does is an Outcome. `repeat`: this key may have been sent before."""
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
