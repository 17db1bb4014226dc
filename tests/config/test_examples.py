"""There is an example for each preset, and each can be applied as it stands."""

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from jobs.models import JobType
from upstream import presets

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.PUBLIC_URL = "https://berth.example"  # files go out as addresses
    for name in ("REPLICATE_TOKEN", "FAL_KEY", "RUNPOD_KEY", "OPENAI_KEY"):
        monkeypatch.setenv(name, "secret")


def test_each_preset_has_an_example_and_stands_on_the_page() -> None:
    page = (EXAMPLES.parent / "docs/configuration.md").read_text(encoding="utf-8")
    assert {path.stem for path in FILES} >= set(presets.names())
    assert not [name for name in presets.names() if f"| `{name}` |" not in page]


@pytest.mark.django_db
@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_an_example_applies_without_a_warning_and_takes_jobs(path: Path) -> None:
    out = io.StringIO()
    call_command("apply", str(path), dry_run=True, stdout=out)
    assert "warning" not in out.getvalue()
    assert out.getvalue().endswith("dry run: nothing was stored\n")
    assert not JobType.objects.exists()
    call_command("apply", str(path), stdout=out)
    assert set(JobType.objects.values_list("accepting", flat=True)) == {True}
