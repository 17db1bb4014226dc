"""Failed jobs that wait for a replay or a dismissal: which of them are meant, in a form that can be kept and said."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils.dateparse import parse_date, parse_datetime

from jobs.models import JobType
from jobs.queries import dead_letters
from pool.models import Pool
from statemachine.sql import Row, now
from tenants.models import Tenant
from upstream.quantities import duration_ms

MOMENTS = ("since", "until")
_NAMED = {"type": JobType, "pool": Pool, "tenant": Tenant}


class NoSuchFilter(ValueError):
    """A filter that no dead letter could fit, since a name or a time in it is none; the message says which."""


@dataclass(frozen=True)
class Filter:
    """Dead letters with this error code, of this job type, pool and tenant (by name), that failed since and before.

    What is None says nothing.
    """

    code: str | None = None
    type: str | None = None
    pool: str | None = None
    tenant: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @classmethod
    def of_words(cls, said: Mapping[str, str | None]) -> "Filter":
        """From what an operator wrote; an empty text says nothing. Raises NoSuchFilter."""
        given = {field.name: (said.get(field.name) or "").strip() for field in fields(cls)}
        for name, model in _NAMED.items():
            if given[name] and not model._default_manager.filter(name=given[name]).exists():
                raise NoSuchFilter(f"{name}: there is no {name} named {given[name]!r}")
        means: dict[str, Any] = {name: text or None for name, text in given.items()}
        means |= {name: moment(name, given[name]) for name in MOMENTS if given[name]}
        return cls(**means)

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> "Filter":
        """From what `as_data` made."""
        means: dict[str, Any] = {
            **data,
            **{name: datetime.fromisoformat(data[name]) for name in MOMENTS if name in data},
        }
        return cls(**means)

    def as_data(self) -> dict[str, str]:
        """What it says, as it can be kept: name → text."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value if isinstance(value, str) else value.isoformat() for name, value in said.items() if value}

    def is_like(self, earlier: "Filter", passed: timedelta) -> bool:
        """Whether it says the same, but for times that moved on by at most what has `passed` since the earlier one."""
        both = [(getattr(self, field.name), getattr(earlier, field.name)) for field in fields(self)]
        return all(
            now == before
            or (isinstance(now, datetime) and isinstance(before, datetime) and before < now <= before + passed)
            for now, before in both
        )

    def terms(self) -> dict[str, Any]:
        """As `queries.dead_letters` wants them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def count(self) -> tuple[list[Row], bool]:
        """How many there are now, by type, tenant and code, and whether that is all (see `queries.dead_letters.count`)."""
        return dead_letters.count(self.terms())

    def __str__(self) -> str:
        said = [(field.name, getattr(self, field.name)) for field in fields(self)]
        words = [f"{name} {_utc(value) if isinstance(value, datetime) else value}" for name, value in said if value]
        return ", ".join(words) or "all dead letters"


def moment(name: str, text: str) -> datetime:
    """`2026-11-30`, `2026-11-30 15:00` (UTC where no zone is said), or `2h`: so long ago. In UTC. Raises NoSuchFilter."""
    try:
        return now() - timedelta(milliseconds=duration_ms(text))
    except (ValueError, OverflowError):
        pass
    try:
        found = parse_datetime(text)
        if found is None and (day := parse_date(text)) is not None:
            found = datetime(day.year, day.month, day.day, tzinfo=UTC)
        if found is not None:
            found = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # no such day, or none that is in our calendar everywhere
        found = None
    if found is None:
        raise NoSuchFilter(f"{name}: {text!r} is no time; write 2026-11-30 15:00 (UTC), 2026-11-30 or 2h (ago)")
    return found


def _utc(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
