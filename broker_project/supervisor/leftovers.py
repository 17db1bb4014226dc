"""What a killed start may have left: a server that is just ending, or a pid file that now names somebody else."""

import contextlib
import os
import subprocess
import time
from pathlib import Path

from broker_project.supervisor.errors import StartFailed

WAIT_SECONDS = 15.0


def clear(pid_file: Path, folder: Path, stop_signal: int) -> None:
    """Frees `folder` for a new server. A live server of ours is stopped; a file that names a stranger is removed.

    A file whose process is gone stays: the server itself checks for orphans that still use the data, and then takes it.
    Raises StartFailed when the old server does not end.
    """
    pid = _pid_in(pid_file)
    if pid is None or not _exists(pid):
        return
    if not _works_in(pid, folder):
        # After a reboot, or in a container, the number is another program's; a zombie has no folder any more.
        pid_file.unlink(missing_ok=True)
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, stop_signal)
    end = time.monotonic() + WAIT_SECONDS
    while _exists(pid) and _works_in(pid, folder):
        if time.monotonic() > end:
            raise StartFailed(f"a server still works in {folder} (pid {pid}) and does not end; stop it and start again")
        time.sleep(0.05)


def _pid_in(pid_file: Path) -> int | None:
    try:
        return abs(int(pid_file.read_text().split()[0]))
    except (FileNotFoundError, IndexError, ValueError):
        return None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _works_in(pid: int, folder: Path) -> bool:
    """Both servers make their data folder their working folder, which tells them from any other program."""
    proc = Path("/proc") / str(pid)
    if not Path("/proc/self").exists():
        return _is_a_server_by_name(pid)
    try:
        return (proc / "cwd").readlink() == folder.resolve()
    except (FileNotFoundError, ProcessLookupError):
        return False
    except PermissionError:
        # The server of the user nobody, seen by a root without all its rights: its command line names the folder.
        return str(folder).encode() in (proc / "cmdline").read_bytes()


def _is_a_server_by_name(pid: int) -> bool:
    said = subprocess.run(["/bin/ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return "postgres" in said.stdout or "valkey-server" in said.stdout
