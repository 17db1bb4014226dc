"""A small configuration to change in one place, and applying it."""

import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker_project.config.apply import apply_file

SMALL: dict[str, Any] = {
    "pools": {
        "video": {
            "upstream": {
                "base_url": "http://127.0.0.1:9900",
                "headers": {"Authorization": "'Bearer ' + account.credential"},
            },
            "accounts": {"a1": {"sessions": 2, "credential": {"env": "A1"}}},
        }
    },
    "job_types": {
        "clip": {
            "pool": "video",
            "price": "10 + 2 * payload.seconds",
            "max_runtime": "5m",
            "upstream": {"submit": {"path": "'/run'", "headers": {"Idempotency-Key": "dispatch_key"}}},
        }
    },
    "tenants": {"acme": {"credits": 100}},
}
GONE = object()
Apply = Callable[..., str]


def small(*changes: tuple[str, Any]) -> dict[str, Any]:
    """The small configuration with values put at dotted places, or taken away (GONE)."""
    content = copy.deepcopy(SMALL)
    for place, value in changes:
        *parents, last = place.split(".")
        inner = content
        for parent in parents:
            inner = inner.setdefault(parent, {})
        if value is GONE:
            del inner[last]
        else:
            inner[last] = value
    return content


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A1", "secret-of-a1")
    monkeypatch.setenv("A2", "secret-of-a2")


@pytest.fixture
def apply(tmp_path: Path) -> Apply:
    """Applies the small configuration with changes, or a text; returns what was printed."""

    def apply_(*changes: tuple[str, Any], text: str = "", dry_run: bool = False, prune: bool = False) -> str:
        path = tmp_path / "broker.yaml"
        path.write_text(text or yaml.safe_dump(small(*changes)), encoding="utf-8")
        out = io.StringIO()
        apply_file(path, dry_run, prune, out)
        return out.getvalue()

    return apply_
