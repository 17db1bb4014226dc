"""What `manage.py up` says once all that was asked for runs."""

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from broker_project.supervisor.announcement import announce
from broker_project.supervisor.run_file import RunFile


@pytest.mark.parametrize(
    ("only", "said"),
    [
        ((), "Berth runs after 0.2 s; Ctrl-C stops it."),
        (("postgres",), "Only postgres runs after 0.2 s; Ctrl-C stops it."),
        (
            ("postgres", "valkey", "worker-assign"),
            "Only postgres, valkey, worker-assign run after 0.2 s; Ctrl-C stops them.",
        ),
    ],
)
def test_it_says_what_runs(only: Sequence[str], said: str) -> None:
    out = io.StringIO()
    run = RunFile("", "", "postgres://berth:s3cret@127.0.0.1:5432/berth", "", {}, {"user": "admin", "password": "x"})
    announce(Console(file=out), run, Path("/srv/berth"), 8000, 0.2, only=only)
    assert out.getvalue().strip().splitlines()[0] == said
    assert "s3cret" not in out.getvalue()
