"""Starts one child process: own session, own log, and dead when we are dead."""

import ctypes
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Role:
    """One kind of process: how it is started and how it is asked to end. Without a `log` it writes where we write."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str]
    log: Path | None = None
    data: Path | None = None  # where it writes besides its log
    cwd: Path = Path("/")
    user: str | None = None
    stop_signal: int = signal.SIGTERM
    last_signal: int = signal.SIGKILL
    orphan_signal: int = signal.SIGKILL
    grace_seconds: float = 10.0
    stop_rank: int = 0  # lower ranks are stopped, and have ended, before higher ones
    pass_fds: tuple[int, ...] = ()
    nice: int = 0  # how far it steps back when the processors are busy
    before_start: Callable[[], None] | None = field(default=None, compare=False)


def spawn(role: Role) -> "subprocess.Popen[bytes]":
    """Starts `role`. Call it from a thread that lives as long as we do: the kernel ties a child to that thread."""
    if role.before_start:
        role.before_start()
    if role.log is None:
        return _popen(role, None)
    role.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with role.log.open("ab") as log:
        return _popen(role, log)


def identity(user: str | None) -> dict[str, Any]:
    """The arguments of Popen that make a child run as `user`."""
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}


def _popen(role: Role, log: IO[bytes] | None) -> "subprocess.Popen[bytes]":
    parent = os.getpid()
    return subprocess.Popen(
        list(role.command),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT if log else None,
        cwd=role.cwd,
        env=dict(role.env),
        pass_fds=role.pass_fds,
        # A terminal's Ctrl-C goes to its whole foreground group; the order of stopping is ours to decide.
        start_new_session=True,
        # Safe only because the supervisor has one thread: no lock can be held by another across the fork.
        preexec_fn=lambda: _begin(role, parent),  # noqa: PLW1509
        **identity(role.user),
    )


def _begin(role: Role, parent: int) -> None:
    os.nice(role.nice)
    # Linux shares the processors between sessions first: there the niceness that counts is the session's own.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(role.nice))
    _die_with(parent, role.orphan_signal)


def _die_with(parent: int, orphan_signal: int) -> None:
    if _libc is None:
        return
    _libc.prctl(PR_SET_PDEATHSIG, orphan_signal)
    # The parent may have died between the fork and this line: then no signal will ever come.
    if os.getppid() != parent:
        os._exit(1)
