"""Known providers: the `upstream` block that calls of such a one need, so that a file says only what differs."""

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml

_FOLDER: Final = Path(__file__).parent


def names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def preset(name: object) -> dict[str, Any]:
    """The block of that name, not to be changed; empty for a name that none has: `apply` refuses such a one."""
    return _read(name) if isinstance(name, str) and name else {}


@lru_cache(maxsize=64)
def _read(name: str) -> dict[str, Any]:
    if name not in names():
        return {}
    found = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise TypeError(f"the preset {name} is not a map")
    return found
