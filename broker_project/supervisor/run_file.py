"""HOME/run.json: where everything runs, for people, scripts and other commands; true as long as it exists."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from broker_project.supervisor.secrets import write_private


@dataclass(frozen=True)
class RunFile:
    """The content; `env` is all that another `manage.py` needs. It holds secrets, so the file is its owner's alone."""

    web_url: str
    flower_url: str
    database_url: str
    redis_url: str
    env: dict[str, str]
    admin: dict[str, str]

    def write(self, home: Path, processes: list[dict[str, Any]]) -> None:
        """Replaces the file by rename; `processes` are `{role, pid, log}`."""
        write_private(home / "run.json", json.dumps({**asdict(self), "processes": processes}, indent=2))


def remove(home: Path) -> None:
    (home / "run.json").unlink(missing_ok=True)
