"""The home folder of one installation: held by one `up` at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker_project.supervisor.errors import HomeInUse


@contextmanager
def held_home(home: Path) -> Iterator[None]:
    """Makes the folder and holds it. The lock ends with the process, however that ends. Raises HomeInUse."""
    # Others may pass through (the user nobody, to its database) but not look around; secrets and logs are closed.
    home.mkdir(mode=0o711, parents=True, exist_ok=True)
    with (home / "up.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise HomeInUse(home, lock.read().strip() or "not known yet") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
