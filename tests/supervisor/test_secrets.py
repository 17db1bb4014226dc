"""The secrets of a home are made once, kept, and closed to others."""

import json
import stat
from dataclasses import asdict
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from broker_project.supervisor.errors import StartFailed
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


@pytest.mark.parametrize("text", ['{"secret_key": "abc"', "", "[]", "null", '{"secret_key": 5}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "secrets.json").write_text(text)
    with pytest.raises(StartFailed, match=r"secrets\.json"):
        load_or_make(tmp_path)
    assert (tmp_path / "secrets.json").read_text() == text


@pytest.mark.parametrize("name", ["secret_key", "field_keys", "key_peppers"])
def test_a_key_that_sealed_something_is_not_made_anew(tmp_path: Path, name: str) -> None:
    known = asdict(load_or_make(tmp_path))
    del known[name]
    (tmp_path / "secrets.json").write_text(json.dumps(known))
    with pytest.raises(StartFailed, match=f"has no {name}"):
        load_or_make(tmp_path)


def test_a_private_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text("old")
    file.chmod(0o644)

    write_private(file, "new")

    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]
