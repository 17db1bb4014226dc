"""How the pages say places and numbers."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Model
from django.urls import reverse

from statemachine.operations import Link


def link_to(row: Model, text: str = "") -> Link:
    """A link to the page of `row` in the admin."""
    names = row._meta
    return Link(text or str(row), reverse(f"admin:{names.app_label}_{names.model_name}_change", args=[row.pk]))


def list_of(model: type[Model], text: str, **filters: Any) -> Link:
    """A link to the list of `model` in the admin, filtered."""
    names = model._meta
    return Link(text, f"{reverse(f'admin:{names.app_label}_{names.model_name}_changelist')}?{urlencode(filters)}")


def several(number: int, noun: str) -> str:
    """`1 session`, `3 sessions`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def lines_of(content: Mapping[str, Any]) -> str:
    """A line for each member: `name: value`, what is no text as JSON."""
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in content.items()
    )


def moment(at: datetime | None) -> str:
    """A time of UTC, to the millisecond."""
    return f"{at:%Y-%m-%d %H:%M:%S.%f}"[:-3] if at else "–"
