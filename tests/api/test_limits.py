"""Budgets and pace over HTTP: 429 with what is used, when to ask again, and the same key works later."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import connection

from credits import ledger
from jobs.models import Job, JobType
from tenants.models import Tenant
from tests.api.conftest import Caller, assert_problem, body_of
from tests.factories import MICRO

pytestmark = pytest.mark.django_db


@pytest.mark.usefixtures("within_one_day")
def test_a_submit_above_the_budget_of_the_day_can_be_repeated_later(caller: Caller, job_type: JobType) -> None:
    Tenant.objects.update(day_budget=15 * MICRO)
    caller.submit(job_type)
    refused = caller.submit(job_type, idempotency_key="the-one-key-12345")
    problem = assert_problem(refused, 429, "quota-exceeded")
    assert problem["quota"] == "day budget"
    assert (problem["budget"], problem["used"], problem["required"]) == ("15.000000", "10.000000", "10.000000")
    assert refused["Retry-After"] == "60"
    assert problem["resets_at"] == f"{today() + timedelta(days=1)}T00:00:00Z"
    assert Job.objects.count() == 1
    Tenant.objects.update(day_budget=20 * MICRO)
    assert caller.submit(job_type, idempotency_key="the-one-key-12345").status_code == 202


@pytest.mark.usefixtures("within_one_day")
def test_the_budget_of_all_tenants_tells_nobody_what_the_others_use(
    caller_of: Callable[..., Caller], job_type: JobType
) -> None:
    ledger.set_ceiling(None, 15 * MICRO)
    assert caller_of().submit(job_type).status_code == 202
    problem = assert_problem(caller_of().submit(job_type), 429, "quota-exceeded")
    next_month = (today().replace(day=1) + timedelta(days=40)).replace(day=1)
    assert (problem["quota"], problem["resets_at"]) == ("month budget of all tenants", f"{next_month}T00:00:00Z")
    assert not {"budget", "used", "detail"} & set(problem)


def today() -> date:
    return datetime.now(UTC).date()


def test_submits_are_paced_while_little_is_left_and_a_repeat_is_none(caller: Caller, job_type: JobType) -> None:
    Tenant.objects.update(low_below=995 * MICRO, low_pause_ms=30_000)
    first = caller.submit(job_type, idempotency_key="the-one-key-12345")
    refused = caller.submit(job_type)
    assert assert_problem(refused, 429, "quota-exceeded")["quota"] == "pace"
    assert 1 <= int(refused["Retry-After"]) <= 30
    again = caller.submit(job_type, idempotency_key="the-one-key-12345")
    assert (again.status_code, body_of(again)["id"]) == (202, body_of(first)["id"])
    with connection.cursor() as cursor:
        cursor.execute("UPDATE credits_balance SET paced_until = clock_timestamp()")
    assert caller.submit(job_type).status_code == 202


def test_a_tenant_that_is_not_billed_has_no_budget(caller: Caller, job_type: JobType) -> None:
    Tenant.objects.update(billing="none", day_budget=0, low_below=MICRO)
    ledger.set_ceiling(0, 0)
    assert [caller.submit(job_type).status_code for _ in range(3)] == [202] * 3
