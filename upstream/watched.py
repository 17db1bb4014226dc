"""The http adapter with an eye on the wire: what was asked and what came back, for whoever tries a mapping."""

from dataclasses import dataclass

from upstream.answer import Answer
from upstream.http import HttpAdapter
from upstream.request import Request
from upstream.wording import NoAnswer


@dataclass(frozen=True, slots=True)
class Exchange:
    """The request line, as it was sent: a path may hold a secret, so redact before it is shown. `came`: status or why none."""

    line: str
    came: str


class WatchedAdapter(HttpAdapter):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Exchange] = []

    async def exchange(self, request: Request) -> Answer | NoAnswer:
        received = await super().exchange(request)
        came = received if isinstance(received, str) else str(received.status)
        self.seen.append(Exchange(f"{request.method} {request.url}", came))
        return received
