"""From an older version to this one under load: its processes on its schema, then ours beside them, then only ours.

The older version is the commit that UPGRADE_FROM names, else the newest tag, else the commit before crash points came.
"""

import os
import subprocess
import tarfile
import time
from io import BytesIO
from pathlib import Path
from typing import Final

from tests.chaos.judging import Outcome, drained, judge
from tests.chaos.watch import steady, watched
from tests.chaos.world import WEB, WORKERS, World
from tests.whole.running import PROJECT

NAME: Final = "an upgrade under load"
BEFORE_CRASH_POINTS: Final = "ea47e85"
BESIDE_SECONDS: Final = 10.0


class NoHistory(Exception):
    """There is no older version here, e.g. since the checkout is shallow."""


def old_tree(folder: Path) -> str:
    """Writes the older version into the folder; its commit. Raises NoHistory."""
    tags = _git("tag", "--sort=-creatordate").decode().split()
    commit = os.environ.get("UPGRADE_FROM") or (tags[0] if tags else BEFORE_CRASH_POINTS)
    with tarfile.open(fileobj=BytesIO(_git("archive", commit))) as archive:
        archive.extractall(folder, filter="data")
    return commit


def run(home: Path, seed: int) -> Outcome:
    """Raises NoHistory."""
    old, place = home / "old", home / "world"
    for folder in (home, old, place):
        folder.mkdir(mode=0o711, exist_ok=True)
    outcome = Outcome(f"{NAME} from {old_tree(old)}")
    with World(place, seed=seed, project=old) as world:
        world.load.begin()
        before = steady(world)
        with watched(world) as sessions:
            with sessions.excused():
                _upgrade(world)
            judge(world, sessions, outcome, before)
            end = drained(world, sessions)
        outcome.jobs = end.jobs
        outcome.violations += end.violations
    return outcome


def _upgrade(world: World) -> None:
    world.project = PROJECT
    world.start("new-workers", WORKERS)  # it brings the schema up to date before it starts anything
    time.sleep(BESIDE_SECONDS)
    new = world.start("new-web", WEB)
    for name in ("client-web", "upstream-web"):
        world.proxies[name].aim(new.run["web_url"])
        world.proxies[name].close()
    for name in ("web", "workers"):
        world.stop_group(name)


def _git(*arguments: str) -> bytes:
    try:
        return subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, check=True).stdout  # noqa: S607  whichever git there is
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"") or str(error).encode()
        raise NoHistory(said.decode(errors="replace").strip()) from error
