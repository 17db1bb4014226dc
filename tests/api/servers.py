"""Web and live as real processes against the test's database, for what only shows between processes."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

HOST = "127.0.0.1"
START_SECONDS = 30
STOP_SECONDS = 15


class WebAndLive:
    """Both processes; their sweeps are far apart, so that a test alone moves its jobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        sockets = {role: _listening() for role in ("web", "live")}
        self.ports = {role: int(found.getsockname()[1]) for role, found in sockets.items()}
        self.urls = {role: f"http://{HOST}:{port}" for role, port in self.ports.items()}
        self.processes = {
            "web": self._start("broker_project.front:app", "web", sockets["web"]),
            "live": self._start("broker_project.live:app", "live", sockets["live"]),
        }
        for role in sockets:
            self._await(role)

    def stop(self, role: str) -> int:
        """Ends the process by SIGTERM; its exit status."""
        process = self.processes[role]
        process.send_signal(signal.SIGTERM)
        return process.wait(STOP_SECONDS)

    def stop_all(self) -> None:
        for role, process in self.processes.items():
            if process.poll() is None:
                self.stop(role)

    def log(self, role: str) -> str:
        return (self.folder / f"{role}.log").read_text()

    def _start(self, app: str, role: str, listening: socket.socket) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "uvicorn", app, "--fd", str(listening.fileno()), "--no-access-log"]
        with (self.folder / f"{role}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--timeout-graceful-shutdown", "1"],
                env={**os.environ, **self._environment()},
                cwd=settings.BASE_DIR,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[listening.fileno()],
            )
        listening.close()
        return process

    def _environment(self) -> dict[str, str]:
        database: dict[str, Any] = connection.settings_dict
        login = f"{database['USER']}:{database['PASSWORD']}"
        return {
            "DATABASE_URL": f"postgres://{login}@{database['HOST']}:{database['PORT']}/{database['NAME']}",
            "WEB_URL": self.urls["web"],
            "LIVE_URL": self.urls["live"],
            "SWEEP_SECONDS": "1000",
            "LEASE_SECONDS": "3000",
            "DATABASE_POOL_SIZE": "2",
            "WEB_THREADS": "4",
        }

    def _await(self, role: str) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.processes[role].poll() is None:
            try:
                with socket.create_connection((HOST, self.ports[role]), timeout=1) as asking:
                    asking.sendall(b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
                    if b" 200 " in asking.recv(100):
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise TimeoutError(f"{role} does not come up:\n{self.log(role)}")


def _listening() -> socket.socket:
    found = socket.socket()
    found.bind((HOST, 0))
    found.listen(1024)
    found.set_inheritable(True)
    return found
