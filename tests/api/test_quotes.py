"""`validate_only` says what would happen now, as a submit is answered then; refunds stand at the jobs that were charged."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from credits import ledger
from credits.models import Hold
from jobs.models import JobType
from tenants.models import Tenant
from tests import factories
from tests.api.conftest import Caller, body_of
from tests.factories import MICRO, money

pytestmark = pytest.mark.django_db


def quote(caller: Caller, job_type: JobType) -> Any:
    response = caller.post("/v1/jobs?validate_only=true", {"type": job_type.name, "payload": {}})
    assert response.status_code == 200
    return body_of(response)


def test_a_quote_says_what_is_available_and_that_it_would_be_accepted(caller: Caller, job_type: JobType) -> None:
    assert quote(caller, job_type) == {
        "type": job_type.name, "price": "10.000000", "price_version": 1, "available": "1000.000000",
        "accepted": True, "reason": None,
    }  # fmt: skip
    assert money(caller.tenant) == (1000 * MICRO, 0)
    assert not Hold.objects.exists()


def poor(tenant: Tenant) -> None:
    """Has 9 of the 10."""
    factories.submit(tenant, factories.make_job_type(price="991"))


def expired(tenant: Tenant) -> None:
    """Has 1,000 credits that have expired, and 9."""
    ledger.grant(tenant.pk, 1000 * MICRO, "gift", "grant_promo", expires_at=timezone.now() - timedelta(seconds=1))
    factories.submit(tenant, factories.make_job_type(price="991"))


def of_a_day(tenant: Tenant) -> None:
    tenant.day_budget = 9 * MICRO
    tenant.save()


def of_a_month(tenant: Tenant) -> None:
    tenant.month_budget = 9 * MICRO
    tenant.save()


def of_all_in_a_day(_tenant: Tenant) -> None:
    ledger.set_ceiling(9 * MICRO, None)


def of_all_in_a_month(_tenant: Tenant) -> None:
    ledger.set_ceiling(None, 9 * MICRO)


def paced(tenant: Tenant) -> None:
    """Has few credits left, and has just submitted."""
    tenant.low_below, tenant.low_pause_ms = 2000 * MICRO, 60_000
    tenant.save()
    factories.submit(tenant, factories.make_job_type())


@pytest.mark.parametrize(
    ("circumstance", "reason"),
    [
        (poor, "insufficient-credits"),
        (expired, "insufficient-credits"),
        (of_a_day, "quota-exceeded"),
        (of_a_month, "quota-exceeded"),
        (of_all_in_a_day, "quota-exceeded"),
        (of_all_in_a_month, "quota-exceeded"),
        (paced, "quota-exceeded"),
    ],
)
def test_a_quote_gives_the_reason_that_a_submit_is_refused_for(
    caller: Caller, job_type: JobType, circumstance: Callable[[Tenant], None], reason: str
) -> None:
    circumstance(caller.tenant)
    before = (money(caller.tenant), Hold.objects.count())
    told = quote(caller, job_type)
    assert (told["accepted"], told["reason"]) == (False, reason)
    assert (money(caller.tenant), Hold.objects.count()) == before
    assert body_of(caller.submit(job_type))["code"] == reason


def test_what_just_fits_would_be_accepted(caller: Caller, job_type: JobType) -> None:
    factories.submit(caller.tenant, factories.make_job_type(price="990"))
    told = quote(caller, job_type)
    assert (told["available"], told["accepted"]) == ("10.000000", True)
    assert caller.submit(job_type).status_code == 202


def test_what_costs_nothing_is_accepted_whatever_is_left(caller: Caller) -> None:
    of_a_day(caller.tenant)
    told = quote(caller, factories.make_job_type(price="0"))
    assert (told["price"], told["accepted"]) == ("0.000000", True)


def test_a_tenant_that_is_not_billed_needs_no_credits(caller_of: Callable[..., Caller], job_type: JobType) -> None:
    caller = caller_of(Tenant.objects.create(name="free", billing="none"))
    told = quote(caller, job_type)
    assert (told["price"], told["available"], told["accepted"]) == ("0.000000", "0.000000", True)
    assert caller.submit(job_type).status_code == 202


def test_a_tenant_without_a_wallet_would_be_refused(caller_of: Callable[..., Caller], job_type: JobType) -> None:
    told = quote(caller_of(Tenant.objects.create(name="new")), job_type)
    assert (told["accepted"], told["reason"]) == (False, "insufficient-credits")


def test_a_job_tells_what_was_refunded_of_it(caller: Caller) -> None:
    job = factories.at("completed", tenant=caller.tenant)
    assert body_of(caller.get(f"/v1/jobs/{job.pk}"))["credits"]["refunded"] == "0.000000"
    ledger.refund(job.pk, job.run, MICRO, "sorry")
    ledger.refund(job.pk, job.run, MICRO // 2, "very sorry")
    told = {"held": "0.000000", "charged": "3.000000", "refunded": "1.500000"}
    assert body_of(caller.get(f"/v1/jobs/{job.pk}"))["credits"] == told
    [listed] = body_of(caller.get("/v1/jobs"))["data"]
    assert listed["credits"] == told


def test_a_page_asks_once_for_refunds_and_not_for_jobs_without_a_charge(caller: Caller) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert caller.get("/v1/jobs").status_code == 200
        return len(queries)

    factories.at("pending", tenant=caller.tenant)
    asked()  # what is kept between requests is there now
    without = asked()
    for _ in range(3):
        factories.at("completed", tenant=caller.tenant)
    asked()
    assert asked() == without + 1
