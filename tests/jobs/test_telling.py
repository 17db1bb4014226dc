"""Tenants are told that little is left, and what expires: once."""

from datetime import UTC, datetime, timedelta

import pytest

from credits import ledger
from credits.errors import InsufficientCredits
from jobs.telling import credits_expire_soon
from tests.db import execute, in_another_connection
from tests.factories import MICRO, make_job_type, make_tenant, submit
from webhooks.models import Event

pytestmark = pytest.mark.django_db(transaction=True)


def told(type_: str) -> list[dict[str, object]]:
    return [event.body["data"] for event in Event.objects.filter(type=type_).order_by("id")]


def test_a_submit_that_leaves_little_tells_it_once() -> None:
    tenant, kind = make_tenant(30, low_below=15 * MICRO, low_pause_ms=0), make_job_type()
    submit(tenant, kind)
    assert told("credits.low") == []
    second = submit(tenant, kind)
    submit(tenant, kind)
    assert told("credits.low") == [
        {"available": "10.000000", "held": "20.000000", "low_below": "15.000000", "job": str(second.pk)}
    ]
    ledger.grant(tenant.pk, 10 * MICRO, "top-up")
    submit(tenant, kind)
    assert len(told("credits.low")) == 2


def test_a_refused_submit_tells_nothing() -> None:
    tenant = make_tenant(5, low_below=15 * MICRO)
    with pytest.raises(InsufficientCredits):
        submit(tenant, make_job_type())
    assert told("credits.low") == []


def test_lots_that_expire_are_told_of_a_week_and_a_day_before() -> None:
    tenant, now = make_tenant(0), datetime.now(UTC)
    for key, days, amount in (("far", 8, 1), ("week", 6, 2), ("day", 0.5, 3)):
        ledger.grant(tenant.pk, amount * MICRO, key, category="promo", expires_at=now + timedelta(days=days))
    ledger.grant(tenant.pk, MICRO, "paid")
    # Granted long ago: one that was granted for less than a notice is not told of.
    execute("UPDATE credits_lot SET created_at = created_at - interval '30 days'")
    ledger.grant(tenant.pk, MICRO, "for the day", category="promo", expires_at=now + timedelta(hours=20))
    both = [in_another_connection(credits_expire_soon) for _ in range(2)]
    for one in both:
        one.result(20)
    assert credits_expire_soon() == 0
    found = sorted((data["amount"], data["within_days"]) for data in told("credits.expiring"))  # type: ignore[type-var]
    assert found == [("2.000000", 7), ("3.000000", 1)]
