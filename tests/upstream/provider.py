"""A bare HTTP server for the tests of upstream/: it answers by path, and misbehaves by path, on a thread of its own."""

import asyncio
import json
import threading
from collections import Counter
from typing import Any


class Provider:
    """`/status/503` answers so with `answer`; the other paths do what their name says. Counts what it received."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.seen: Counter[str] = Counter()
        self.answer: bytes = b'{"status":"done","units":3}'
        self.content_type = "application/json"
        self.extra_headers = ""
        self.pause_seconds = 0.0
        self.now = self.most_at_once = 0
        self.release = threading.Event()  # for /hold
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = 0
        try:
            while await self._one(reader, writer, served):
                served += 1
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, served: int) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        path = target.partition("?")[0]
        self.seen[path] += 1
        self.requests.append({"method": method, "target": target, "headers": headers, "body": body})
        self.now += 1
        self.most_at_once = max(self.now, self.most_at_once)
        try:
            raw = await self._raw(path, served)
        finally:
            self.now -= 1
        if raw is None:
            return False
        writer.write(raw)
        await writer.drain()
        return path not in ("/truncated", "/not-http")

    async def _raw(self, path: str, served: int) -> bytes | None:
        if path == "/cut" or (path == "/cut-when-reused" and served):
            return None
        if path == "/hang":
            await asyncio.sleep(60)
        if path == "/hold":
            while not self.release.is_set():
                await asyncio.sleep(0.01)
        if path == "/not-http":
            return b"\x00\x01 nonsense\r\n\r\n"
        if path == "/truncated":
            return b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + self.answer
        if path == "/large":
            return b"HTTP/1.1 200 OK\r\nContent-Length: 10000001\r\n\r\n" + b" " * 10_000_001
        await asyncio.sleep(self.pause_seconds)
        status = path.removeprefix("/status/") if path.startswith("/status/") else "200"
        body = b"" if status == "204" else self.answer
        length = "" if status == "204" else f"Content-Length: {len(body)}\r\n"
        head = f"HTTP/1.1 {status} x\r\nContent-Type: {self.content_type}\r\n{length}{self.extra_headers}\r\n"
        return head.encode() + body


def answer_json(value: Any) -> bytes:
    return json.dumps(value).encode()
