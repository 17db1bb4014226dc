"""A provider whose results lie behind links: a small HTTP server with a page per path, which can die."""

import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Linking:
    """`pages`: path → (status, headers, body), a body may be a callable; what is not there is a 404."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.pages: dict[str, tuple[int, Mapping[str, str], Any]] = {}
        self.seen: Counter[str] = Counter()
        self.headers: dict[str, Mapping[str, str]] = {}
        self.sent: dict[str, bytes] = {}
        self.pause_seconds = 0.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer._answer(self)

            def do_POST(self) -> None:
                outer.sent[self.path] = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer._answer(self)

            def log_message(self, *_args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{host}:{self._server.server_port}"
        self.host = f"{host}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def die(self) -> None:
        """Nothing is to be had here any more."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, asked: BaseHTTPRequestHandler) -> None:
        self.seen[asked.path] += 1
        self.headers[asked.path] = {name.lower(): value for name, value in asked.headers.items()}
        time.sleep(self.pause_seconds)
        status, headers, body = self.pages.get(asked.path, (404, {}, b"none"))
        content = body() if callable(body) else body
        with suppress(ConnectionError):  # a reader that has gone
            self._send(asked, status, {"Content-Length": str(len(content)), **headers}, content)

    def _send(self, asked: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], content: bytes) -> None:
        asked.send_response(status)
        for name, value in headers.items():
            asked.send_header(name, value)
        asked.end_headers()
        asked.wfile.write(content)
