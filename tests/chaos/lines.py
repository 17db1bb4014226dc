"""Steers the proxies: `Proxies.between` puts one before an address, and the `Proxy` it gives back fails as it is told to."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.chaos.proxy import DIRECTIONS, HOST
from tests.whole.running import PROJECT


class Proxy:
    """One line between two parts. `url` is the address to use in place of the one it leads to."""

    def __init__(self, proxies: "Proxies", name: str, url: str, port: int) -> None:
        self._proxies, self.name = proxies, name
        parts = urlsplit(url)
        credentials = parts.netloc.rpartition("@")[0]
        self.url = parts._replace(netloc=f"{credentials}@{HOST}:{port}" if credentials else f"{HOST}:{port}").geturl()

    def aim(self, url: str) -> None:
        """From now on new connections lead to the address of this URL."""
        parts = urlsplit(url)
        self._proxies.do("aim", self.name, host=parts.hostname, port=parts.port)

    def fail(self, kind: str, *directions: str, **measures: float) -> None:
        """From now on, as `proxy.py` says for this kind; `seconds` and `bytes` are its measures."""
        self._proxies.do("fail", self.name, kind=kind, directions=directions or DIRECTIONS, **measures)

    def heal(self) -> None:
        self._proxies.do("heal", self.name)

    def close(self) -> None:
        """Resets what is connected now; new connections are as before."""
        self._proxies.do("close", self.name)

    def connections(self) -> int:
        return int(self._proxies.do("count", self.name))

    @contextmanager
    def failing(self, kind: str, *directions: str, **measures: float) -> Iterator[None]:
        self.fail(kind, *directions, **measures)
        try:
            yield
        finally:
            self.heal()


class Proxies(dict[str, Proxy]):
    """All proxies of a world, by name, in one process."""

    def __init__(self) -> None:
        super().__init__()
        command = [sys.executable, "-m", "tests.chaos.proxy"]
        self._process = subprocess.Popen(
            command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._lock = threading.Lock()

    def between(self, name: str, url: str) -> Proxy:
        """A proxy before the address of `url`."""
        parts = urlsplit(url)
        self[name] = Proxy(self, name, url, int(self.do("listen", name, host=parts.hostname, port=parts.port)))
        return self[name]

    def heal(self) -> None:
        for proxy in self.values():
            proxy.heal()

    def do(self, what: str, line: str, **more: Any) -> Any:
        """An order and its answer."""
        order: Mapping[str, Any] = {"do": what, "line": line, **more}
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()
