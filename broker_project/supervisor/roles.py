"""The processes that make up Berth, as `up` starts them; the Procfile lists the same for other process managers."""

import sys
from collections.abc import Mapping
from pathlib import Path

from broker_project.supervisor.ports import HOST
from broker_project.supervisor.spawn import Role

CLOSE_SECONDS = 5  # how long web and live wait for open requests when they are stopped
_CLOSE = ["--no-access-log", "--timeout-graceful-shutdown", str(CLOSE_SECONDS)]
_DRAIN_MARGIN_SECONDS = 5.0
# On a busy machine accounting and accepting may wait a little; a session that waits for its next job is capacity lost.
_STEPS_BACK = 5
_HAND_OFF = {"worker-assign", "worker-upstream"}

WORKERS = {"worker-assign": ("assign", 2), "worker-transitions": ("transitions", 4), "worker-upstream": ("upstream", 4)}
# What begins work stops first, then the calls end, and last goes what accounts for them.
_STOPS = {"worker-assign": 0, "worker-upstream": 1, "worker-transitions": 2}


def web_role(home: Path, env: Mapping[str, str], listening: int) -> Role:
    """`listening` is the descriptor of its socket, which outlives it."""
    command = ["uvicorn", "broker_project.front:app", "--fd", str(listening), *_CLOSE]
    return _python(home, env, "web", command, rank=0, pass_fds=(listening,))


def live_role(home: Path, env: Mapping[str, str], port: int) -> Role:
    command = ["uvicorn", "broker_project.live:app", "--host", HOST, "--port", str(port), *_CLOSE]
    return _python(home, env, "live", command, rank=2)


def worker_roles(home: Path, env: Mapping[str, str], drain_seconds: float) -> list[Role]:
    """The workers by role; each is given the time to end its calls in flight."""
    return [
        _python(
            home,
            env,
            name,
            _worker(queue, threads),
            rank=_STOPS[name],
            grace_seconds=drain_seconds + _DRAIN_MARGIN_SECONDS,
        )
        for name, (queue, threads) in WORKERS.items()
    ]


def beat_role(home: Path, env: Mapping[str, str]) -> Role:
    return _python(
        home, env, "beat", ["celery", "-A", "broker_project", "beat", "-s", str(home / "beat-schedule")], rank=0
    )


def flower_role(home: Path, env: Mapping[str, str], port: int, login: str) -> Role:
    """`login` is user:password; it goes by the environment, since every user of the machine can read arguments."""
    command = ["celery", "-A", "broker_project", "flower", f"--address={HOST}", f"--port={port}"]
    # It keeps nothing, and while the broker is away it would take its time to end.
    return _python(home, {**env, "FLOWER_BASIC_AUTH": login}, "flower", command, rank=2, grace_seconds=3.0)


def counters(home: Path) -> Path:
    """Where the processes keep their counters while they run."""
    return home / "counters"


def command_role(env: Mapping[str, str], *arguments: str) -> Role:
    """A `manage.py` command that ends by itself and writes where we write."""
    return Role(arguments[0], [sys.executable, "manage.py", *arguments], env=env, cwd=_project())


def _worker(queue: str, threads: int) -> list[str]:
    worker = ["celery", "-A", "broker_project", "worker", "-n", f"{queue}@%h", "-Q", queue, "-P", "threads"]
    return [*worker, "-c", str(threads), "-E", "--without-gossip", "--without-mingle"]


def _python(
    home: Path,
    env: Mapping[str, str],
    name: str,
    module: list[str],
    *,
    rank: int,
    grace_seconds: float = 10.0,
    pass_fds: tuple[int, ...] = (),
) -> Role:
    # Their counters are read together, through web. Flower counts for itself.
    shared = {} if name == "flower" else {"PROMETHEUS_MULTIPROC_DIR": str(counters(home))}
    return Role(
        name,
        [sys.executable, "-m", *module],
        env={**env, **shared},
        log=home / "logs" / f"{name}.log",
        cwd=_project(),
        grace_seconds=grace_seconds,
        stop_rank=rank,
        pass_fds=pass_fds,
        nice=0 if name in _HAND_OFF else _STEPS_BACK,
    )


def _project() -> Path:
    return Path(__file__).resolve().parents[2]
