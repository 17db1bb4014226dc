"""A TCP proxy between two parts, whose line can be cut, slow, deaf, reset, dripping, or end after so many bytes.

It is a process of its own, `python -m tests.chaos.proxy`, steered by JSON lines on its standard input; `tests.chaos.lines`
does that. A fault concerns one direction or both: `there` is from who connects to whom it reaches, `back` is the answer.

| kind | what happens |
|--|--|
| `cut`, `reset` | connections end (with RST), new ones too, until healed |
| `delay` | each piece arrives `seconds` later |
| `hole` | accepted and swallowed, nothing arrives; those who were in it are reset when it is healed |
| `stall` | nothing arrives until it is healed, then all of it |
| `drip` | `bytes` at a time, each `seconds` |
| `after` | a connection ends after `bytes` have passed since the fault began |
"""

import asyncio
import json
import socket
import struct
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import uvloop

HOST = "127.0.0.1"
PIECE_BYTES = 65536
DIRECTIONS = ("there", "back")
KINDS = ("cut", "reset", "delay", "hole", "stall", "drip", "after")


@dataclass(eq=False)
class Fault:
    """One fault of one line, from when it began until `over`."""

    kind: str
    directions: tuple[str, ...] = DIRECTIONS
    seconds: float = 0.2
    bytes: int = 16
    passed: Counter[tuple[int, str]] = field(default_factory=Counter)
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False)
class Connection:
    """Both ends of one connection; `swallowed` once a byte of it is missing."""

    ends: list[asyncio.StreamWriter]
    swallowed: bool = False

    def close(self, *, reset: bool = False) -> None:
        for end in self.ends:
            if not end.is_closing():
                if reset:
                    own = end.get_extra_info("socket")
                    own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.transport.abort()


class Line:
    """A port of ours and the address it leads to."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.fault: Fault | None = None
        self.connections: set[Connection] = set()

    async def listen(self) -> int:
        """Its port."""
        self.server = await asyncio.start_server(self._accepted, HOST, 0, limit=PIECE_BYTES, backlog=512)
        return int(self.server.sockets[0].getsockname()[1])

    def fail(self, fault: Fault) -> None:
        self.heal()
        self.fault = fault
        if fault.kind in ("cut", "reset"):
            self.close(reset=fault.kind == "reset")

    def heal(self) -> None:
        fault, self.fault = self.fault, None
        if fault is not None:
            fault.over.set()
        for connection in [each for each in self.connections if each.swallowed]:
            connection.close(reset=True)

    def close(self, *, reset: bool) -> None:
        """Ends what is connected now."""
        for connection in list(self.connections):
            connection.close(reset=reset)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection([writer])
        self.connections.add(connection)
        try:
            if self.fault is not None and self.fault.kind in ("cut", "reset"):
                connection.close(reset=self.fault.kind == "reset")
                return
            far_reader, far_writer = await asyncio.open_connection(self.host, self.port, limit=PIECE_BYTES)
            connection.ends.append(far_writer)
            there = asyncio.ensure_future(self._pump(connection, reader, far_writer, "there"))
            back = asyncio.ensure_future(self._pump(connection, far_reader, writer, "back"))
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
            for pump in (there, back):
                pump.cancel()
        except OSError:
            pass  # nobody there: then there is nobody here either
        finally:
            connection.close()
            self.connections.discard(connection)

    async def _pump(
        self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str
    ) -> None:
        """Until one side has ended. What was read before its end is passed on."""
        with suppress(OSError):
            while piece := await reader.read(PIECE_BYTES):
                await self._pass(connection, writer, direction, piece)
            writer.write_eof()
            await writer.drain()
            # The other direction may still have something to say, and half-closed lines are rare: a moment is enough.
            await asyncio.sleep(0.05)

    async def _pass(self, connection: Connection, writer: asyncio.StreamWriter, direction: str, piece: bytes) -> None:
        fault = self.fault if self.fault is not None and direction in self.fault.directions else None
        kind = fault.kind if fault else ""
        if fault is None or kind in ("cut", "reset"):
            writer.write(piece)
        elif kind == "hole":
            connection.swallowed = True
        elif kind == "drip":
            for start in range(0, len(piece), fault.bytes):
                writer.write(piece[start : start + fault.bytes])
                if not fault.over.is_set():
                    await asyncio.sleep(fault.seconds)
        elif kind == "after":
            left = fault.bytes - fault.passed[id(connection), direction]
            fault.passed[id(connection), direction] += len(piece)
            writer.write(piece[: max(left, 0)])
            await writer.drain()
            if len(piece) > left:
                await asyncio.sleep(0)
                connection.close()
        else:
            with suppress(TimeoutError):
                await asyncio.wait_for(fault.over.wait(), fault.seconds if kind == "delay" else None)
            writer.write(piece)
        await writer.drain()


class Lines:
    """All lines of one process, by name."""

    def __init__(self) -> None:
        self.lines: dict[str, Line] = {}

    async def do(self, order: dict[str, Any]) -> Any:
        """`{"do": listen|aim|fail|heal|close|count, "line": name, …}`: the port, or how many connections there are."""
        what, name = order.pop("do"), order.pop("line")
        if what == "listen":
            self.lines[name] = Line(**order)
            return await self.lines[name].listen()
        line = self.lines[name]
        if what == "fail":
            line.fail(Fault(**{**order, "directions": tuple(order.get("directions", DIRECTIONS))}))
        elif what == "heal":
            line.heal()
        elif what == "aim":
            line.host, line.port = order["host"], order["port"]
        elif what == "close":
            line.close(reset=True)
        return len(line.connections)


async def serve() -> None:
    """Until nobody steers any more."""
    lines, orders = Lines(), asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while order := await orders.readline():
        sys.stdout.write(json.dumps(await lines.do(json.loads(order))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(serve())
