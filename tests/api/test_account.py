"""Balance, job types and pools as a tenant sees them."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from credits import ledger
from jobs.api.answers import time_text
from tenants.models import Tenant
from tests import factories
from tests.api.conftest import Caller, body_of
from tests.factories import MICRO
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db


def test_the_balance_shows_what_is_held(caller: Caller) -> None:
    factories.at("pending", tenant=caller.tenant)
    assert body_of(caller.get("/v1/balance")) == {
        "posted": "1000.000000", "held": "10.000000", "available": "990.000000", "credit_limit": "0.000000",
        "owed": "0.000000", "budgets": {"day": None, "month": None}, "expiring": [],
    }  # fmt: skip


@pytest.mark.usefixtures("within_one_day")
def test_the_balance_shows_what_is_used_of_the_budgets(caller: Caller) -> None:
    Tenant.objects.update(month_budget=50 * MICRO)
    factories.at("completed", tenant=caller.tenant)
    factories.at("pending", tenant=caller.tenant)
    assert body_of(caller.get("/v1/balance"))["budgets"] == {
        "day": None,
        "month": {"budget": "50.000000", "used": "13.000000"},
    }


def test_the_balance_shows_what_expires_and_what_is_owed(caller: Caller) -> None:
    soon, later = (timezone.now() + timedelta(days=days) for days in (1, 2))
    for moment, amount, key in ((later, 5, "a"), (soon, 2, "b"), (soon, 1, "c")):
        ledger.grant(caller.tenant.pk, amount * MICRO, key, "grant_promo", expires_at=moment)
    job = factories.at("assigned", factories.make_job_type(overrun="debt", price="1008"), caller.tenant)
    factories.end(job, Outcome(over=True, verdict="succeeded", units=1010))
    ledger.grant(caller.tenant.pk, 3 * MICRO, "d", "grant_promo", expires_at=soon)
    balance = body_of(caller.get("/v1/balance"))
    assert (balance["posted"], balance["owed"], balance["available"]) == ("3.000000", "2.000000", "1.000000")
    assert balance["expiring"] == [{"expires_at": time_text(soon), "amount": "3.000000"}]


def test_a_tenant_without_a_wallet_has_nothing(caller_of: Callable[..., Caller]) -> None:
    tenant = Tenant.objects.create(name="free", billing="none")
    balance = body_of(caller_of(tenant).get("/v1/balance"))
    assert (balance["available"], balance["owed"], balance["expiring"]) == ("0.000000", "0.000000", [])


def test_a_type_says_its_price_and_schema(caller_of: Callable[..., Caller]) -> None:
    schema = {"type": "object"}
    job_type = factories.make_job_type(payload_schema=schema, start_deadline_ms=90_000)
    caller = caller_of(prices={job_type.name: "0.8 * price"})
    (document,) = body_of(caller.get("/v1/job-types"))["data"]
    assert (document["price"], document["tenant_price"], document["settle"]) == ("10", "0.8 * price", "outcome.units")
    assert (document["payload_schema"], document["start_deadline_seconds"]) == (schema, 90)
    assert "upstream" not in document


def test_a_pool_says_how_full_it_is(caller: Caller) -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=2, window=1))
    factories.at("processing", job_type=job_type)
    for _ in range(3):
        factories.submit(caller.tenant, job_type)
    (pool,) = body_of(caller.get("/v1/pools"))["data"]
    assert (pool["depth"], pool["running"]) == (3, 1)
    assert pool["sessions"] == {"total": 2, "available": 1, "busy": 1}
    assert 0 <= pool["lag_seconds"] < 60


def test_a_pool_counts_those_that_wait_for_their_time(caller: Caller) -> None:
    job = factories.at("backing_off", tenant=caller.tenant)
    (pool,) = body_of(caller.get("/v1/pools"))["data"]
    assert (pool["name"], pool["depth"], pool["running"]) == (job.pool.name, 1, 0)
