"""The secrets of a home are made once, kept, and closed to others."""

import json
import stat
from dataclasses import asdict
from pathlib import Path

from cryptography.fernet import Fernet

from broker_project.supervisor.secrets import load_or_make, write_private


def test_secrets_are_made_once_and_closed_to_others(tmp_path: Path) -> None:
    made = load_or_make(tmp_path)

    assert load_or_make(tmp_path) == made
    assert stat.S_IMODE((tmp_path / "secrets.json").stat().st_mode) == 0o600
    assert len(set(asdict(made).values())) == len(asdict(made))
    Fernet(made.field_keys.removeprefix("k1:"))


def test_a_secret_that_came_later_is_added_and_the_others_stay(tmp_path: Path) -> None:
    made = load_or_make(tmp_path)
    old = asdict(made)
    del old["admin_password"]
    (tmp_path / "secrets.json").write_text(json.dumps(old))

    again = load_or_make(tmp_path)

    assert again.admin_password
    assert {**asdict(again), "admin_password": ""} == {**asdict(made), "admin_password": ""}


def test_a_private_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text("old")
    file.chmod(0o644)

    write_private(file, "new")

    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]
