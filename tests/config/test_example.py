"""The example applies as it stands and shows every field; so does docs/configuration.md."""

import re
from pathlib import Path

import pytest

from broker_project.config import schema
from broker_project.config.apply import apply_file
from jobs.models import JobType

ROOT = Path(__file__).parents[2]
TABLES = [
    schema.POOL,
    schema.ACCOUNT,
    schema.JOB_TYPE,
    schema.SUBMIT,
    schema.POLL,
    schema.CANCEL,
    schema.FIND,
    schema.CALLBACK,
    schema.RESULT_FILES,
    schema.CLEANUP,
    schema.PROBE,
    schema.BALANCE,
    schema.TENANT,
]


@pytest.mark.django_db
def test_the_example_applies_and_its_clips_can_be_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        monkeypatch.setenv(f"ACCT_00{number}", f"sim-acct-00{number}")
    with (tmp_path / "out").open("w") as out:
        apply_file(ROOT / "broker.example.yaml", False, False, out)
    accepting = dict(JobType.objects.values_list("name", "accepting"))
    assert accepting == {"clip": True, "clip-async": True}


@pytest.mark.parametrize("page", ["broker.example.yaml", "docs/configuration.md"])
def test_every_field_is_shown(page: str) -> None:
    shown = (ROOT / page).read_text(encoding="utf-8")
    missing = {name for table in TABLES for name in table if not re.search(rf"\b{name}\b", shown)}
    assert not missing


def test_every_variable_of_the_settings_is_documented() -> None:
    settings = (ROOT / "broker_project/settings.py").read_text(encoding="utf-8")
    names = set(re.findall(r'env\.\w+\("([A-Z_]+)"', settings))
    page = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    assert not {name for name in names if f"`{name}`" not in page}
