"""A Postgres and a Valkey for one test run, in a temporary folder, on ports that the kernel chooses.

`DATABASE_URL` or `REDIS_URL` in the environment name servers of your own, which are then used instead.
"""

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex, token_urlsafe

from cryptography.fernet import Fernet

START_SECONDS = 60
HOST = "127.0.0.1"


class ServersOfTheRun:
    """Sets the environment and starts what is missing. Make it before any of Berth is imported.

    The settings read the environment when they are first imported, so addresses and passwords are fixed before the
    supervisor (whose import brings the settings) starts the servers.
    """

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="berth-tests-"))
        self.home.chmod(0o711)  # the user nobody may have to pass to its database
        self.password = token_hex(20)
        self.postgres_port, self.valkey_port = _two_free_ports()
        self.own = {name for name in ("DATABASE_URL", "REDIS_URL") if not os.environ.get(name)}
        self.summary = "servers of the tests: as the environment says"
        _set_environment(self.home, self._urls())
        try:
            self.stop_servers = self._start()
        except BaseException:
            shutil.rmtree(self.home, ignore_errors=True)
            raise

    def stop(self) -> None:
        self.stop_servers()
        shutil.rmtree(self.home, ignore_errors=True)

    def forget(self) -> None:
        """Whoever is started from now on makes servers and settings of its own."""
        for name in (*self.own, "DJANGO_SETTINGS_MODULE"):
            os.environ.pop(name, None)

    def _urls(self) -> dict[str, str]:
        urls = {
            "DATABASE_URL": f"postgres://postgres:{self.password}@{HOST}:{self.postgres_port}/berth",
            "REDIS_URL": f"redis://:{self.password}@{HOST}:{self.valkey_port}/0",
        }
        return {name: url for name, url in urls.items() if name in self.own}

    def _start(self) -> Callable[[], None]:
        from broker_project.supervisor.postgres import EmbeddedPostgres
        from broker_project.supervisor.processes import ProcessTable
        from broker_project.supervisor.valkey import EmbeddedValkey

        table = ProcessTable()
        try:
            if "REDIS_URL" in self.own:
                valkey = EmbeddedValkey(self.home, self.valkey_port, self.password)
                entry = table.start(valkey.role(self.home / "logs" / "valkey.log"))
                await_answer(valkey.answers, entry.log_text)
            if "DATABASE_URL" in self.own:
                postgres = EmbeddedPostgres(self.home, self.postgres_port, self.password, durable=False)
                postgres.initialise()
                entry = table.start(postgres.role(self.home / "logs" / "postgres.log"))
                await_answer(postgres.answers, entry.log_text)
                postgres.create_database()
                self.summary = f"servers of the tests: embedded; Postgres runs {postgres.place.way}"
        except BaseException:
            table.stop_all()
            raise
        return table.stop_all


def await_answer(answers: Callable[[], bool], log_text: Callable[[], str]) -> None:
    end = time.monotonic() + START_SECONDS
    while not answers():
        if time.monotonic() > end:
            raise TimeoutError(f"a server of the tests does not come up:\n{log_text()}")
        time.sleep(0.02)


def _set_environment(home: Path, urls: dict[str, str]) -> None:
    os.environ.update(urls)
    os.environ.update({"DJANGO_SETTINGS_MODULE": "broker_project.settings", "BERTH_HOME": str(home)})
    keys = {
        "SECRET_KEY": token_urlsafe(48),
        "FIELD_KEYS": f"k1:{Fernet.generate_key().decode()}",
        "KEY_PEPPERS": f"1:{token_hex(32)}",
    }
    for name, value in keys.items():
        os.environ.setdefault(name, value)


def _two_free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind((HOST, 0))
        other.bind((HOST, 0))
        return one.getsockname()[1], other.getsockname()[1]
