"""What an operator does with the pages alone, on a wide and on a narrow screen."""

import re

import pytest
from django.contrib.admin.models import LogEntry

from broker_project.control import live_page
from jobs import transitions
from jobs.models import JobMove
from pool.models import Pool, Resource
from tenants import keys
from tests import factories
from tests.factories import BUSY, MICRO, SUCCESS, money
from tests.jobs.test_restoring import restored
from tests.pages.conftest import Operator

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


@pytest.fixture(autouse=True)
def _numbers_are_counted_anew() -> None:
    live_page.recent.forget()


def test_a_wrong_password_opens_nothing(operator: Operator) -> None:
    operator.log_in("a wrong one")
    operator.sees("Please enter the correct username and password")
    operator.looks("login")


def test_an_account_is_drained_and_the_live_page_shows_it(operator: Operator) -> None:
    job_type = factories.make_job_type(factories.make_pool(name="video", sessions=8, accounts=3))
    tenant = factories.make_tenant(name="acme")
    jobs = factories.submit_many(tenant, job_type, 30)
    transitions.assign(job_type.pool_id)
    factories.end_all([job.pk for job in jobs[:2]], SUCCESS)
    factories.end_all([jobs[2].pk], BUSY)
    for job in jobs[3:8]:
        factories.dispatch(job)

    operator.log_in()
    operator.sees("sessions in use")
    assert operator.page.locator("#berth-pools .berth-cell").count() == 24
    operator.choose("Accounts")
    operator.page.get_by_role("link", name=re.compile("acct-001")).first.click()
    operator.sees("Sessions")
    operator.looks("account")
    operator.press("Drain")
    operator.page.fill("#id_reason", "planned work at the provider")
    operator.press("Show the effect")
    operator.sees("will accept no job")
    operator.looks("drain")
    operator.press("Drain")
    operator.sees("8 sessions drained")
    assert Resource.objects.filter(accepting=False, note="planned work at the provider (admin:root)").count() == 8
    operator.choose("Live")
    operator.page.locator("#berth-pools .berth-cell.draining").nth(7).wait_for()
    operator.looks("live")


def test_the_live_page_updates_by_itself(operator: Operator) -> None:
    job_type = factories.make_job_type(factories.make_pool(name="video"))
    operator.log_in()
    operator.sees("sessions in use")
    assert operator.page.locator(".berth-cell.s-busy").count() == 1, "the legend's own"
    factories.at("processing", job_type)
    operator.page.locator("#berth-pools .s-busy").wait_for(timeout=10_000)
    assert "admin/" in operator.page.url


def test_the_live_page_says_that_a_pool_is_closed_since_a_restore(operator: Operator) -> None:
    factories.at("pending", factories.make_job_type(factories.make_pool(name="video", sessions=3)))
    restored()
    until = Pool.objects.get().quarantined_until
    assert until is not None
    operator.log_in()
    operator.sees(f"closed since a restore, until {until:%Y-%m-%d %H:%M:%S} UTC at the earliest")
    operator.looks("closed_pool")


def test_a_dead_letter_runs_again(operator: Operator) -> None:
    job_type = factories.make_job_type(factories.make_pool(name="video"), name="clip")
    job = factories.at("failed", job_type, factories.make_tenant(name="acme", credits=50))
    operator.log_in()
    operator.choose("Dead letters")
    operator.looks("dead-letters")
    operator.page.locator(f"a[href*='{job.pk}']").first.click()
    operator.sees("Attempts")
    operator.looks("job")
    operator.press("Run again")
    operator.sees("10 of 50 credits are held")
    operator.looks("run-again")
    operator.press("Run again")
    operator.sees("run 2 has begun, 10 credits are held")
    operator.sees("admin:root")
    job.refresh_from_db()
    assert (job.state, job.run) == ("pending", 2)
    assert JobMove.objects.latest("id").actor == "admin:root"
    assert money(job.tenant) == (50 * MICRO, 10 * MICRO)


def test_credits_are_granted_and_a_key_is_issued(operator: Operator) -> None:
    tenant = factories.make_tenant(name="acme", credits=50)
    operator.log_in()
    operator.choose("Tenants")
    operator.page.get_by_role("link", name="acme").first.click()
    operator.sees("50 posted, 0 held")
    operator.looks("tenant")
    operator.press("Grant credits")
    operator.page.fill("#id_amount", "25.5")
    operator.page.fill("#id_reason", "invoice 7")
    operator.press("Show the effect")
    operator.sees("75.5 available")
    operator.looks("grant")
    operator.press("Grant credits")
    operator.sees("25.5 credits granted, 75.5 are available")
    operator.press("Issue an API key")
    operator.page.fill("#id_name", "ci")
    operator.looks("issue-key")
    operator.press("Show the effect")
    operator.press("Issue an API key")
    secret = operator.page.locator(".berth-secret").inner_text()
    key = keys.verify(secret)
    assert key is not None
    assert (key.tenant, key.name) == (tenant, "ci")
    operator.press("I have copied it")
    operator.sees("ci")
    assert secret not in operator.page.content()
    assert LogEntry.objects.count() == 3, "of the grant at its entry too"


def test_rows_are_chosen_in_the_list(operator: Operator) -> None:
    jobs = [factories.at("failed") for _ in range(2)]
    operator.log_in()
    operator.choose("Dead letters")
    for box in operator.page.locator("input.action-select").locator("visible=true").all()[:2]:
        box.check()
    operator.page.locator("select[name=action]").select_option("dismiss")
    operator.page.locator("button[type=submit]:has-text('Run')").locator("visible=true").first.click()
    operator.sees("put aside")
    operator.press("Dismiss")
    operator.sees("put aside")
    assert not [job for job in jobs if _is_dead_letter(job)]


def test_the_pages_of_the_api_answer(operator: Operator) -> None:
    operator.page.goto(f"{operator.address}/docs")
    operator.sees("Submit a job")
    operator.looks("api")


def _is_dead_letter(job: object) -> bool:
    job.refresh_from_db()  # type: ignore[attr-defined]
    return job.dismissed_at is None  # type: ignore[attr-defined]
