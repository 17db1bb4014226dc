"""Money in an operator's hands, at a real screen: every form, its effect, and where the reason is found later."""

import pytest
from django.contrib.admin.models import LogEntry

from credits.allowances import grant_allowances
from credits.lines import line_of
from credits.models import Allowance, Lot
from tests import factories
from tests.factories import MICRO, money
from tests.pages.conftest import Operator

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


def test_a_gift_until_a_date_and_a_credit_line(operator: Operator) -> None:
    tenant = factories.make_tenant(name="acme", credits=50)
    operator.log_in()
    _open(operator, "Tenants", "acme")
    operator.press("Grant credits")
    operator.page.fill("#id_amount", "25.5")
    operator.page.select_option("#id_category", "promo")
    operator.page.fill("#id_expires_at", "2020-01-01T00:00")
    operator.page.fill("#id_reason", "spring campaign")
    operator.looks("grant-form")
    operator.press("Show the effect")
    operator.sees("It must lie ahead")
    operator.looks("grant-refused")
    operator.page.fill("#id_expires_at", "2099-12-01T10:00")
    operator.press("Show the effect")
    operator.sees("75.5 available; 25.5 of it until 2099-12-01 10:00 UTC")
    operator.looks("grant-effect")
    operator.press("Grant credits")
    operator.sees("25.5 credits granted, 75.5 are available")
    lot = Lot.objects.latest("id")
    assert (lot.category, f"{lot.expires_at:%Y-%m-%d %H:%M}") == ("promo", "2099-12-01 10:00")

    operator.press("Set the credit line")
    operator.page.fill("#id_amount", "100")
    operator.page.fill("#id_reason", "contract 4")
    operator.looks("line-form")
    operator.press("Show the effect")
    operator.sees("line 100, floor -100, 175.5 available")
    operator.looks("line-effect")
    operator.press("Set the credit line")
    operator.sees("75.5 posted, 0 held, line 100")
    assert line_of(tenant.pk).floor == -100 * MICRO
    operator.looks("tenant-with-money")

    operator.page.get_by_role("link", name="grant_promo").first.click()
    operator.sees("spring campaign")
    operator.looks("entry")
    operator.page.goto(f"{operator.address}/admin/credits/lot/{lot.pk}/change/")
    operator.sees("Entries")
    operator.looks("lot")


def test_a_charge_is_refunded(operator: Operator) -> None:
    job_type = factories.make_job_type(factories.make_pool(name="video"), name="clip")
    job = factories.at("completed", job_type, factories.make_tenant(name="acme", credits=50))
    operator.log_in()
    _open(operator, "Jobs", str(job.pk))
    operator.press("Refund")
    operator.page.fill("#id_amount", "2")
    operator.page.fill("#id_reason", "ticket 9: two of three were blurred")
    operator.looks("refund-form")
    operator.press("Show the effect")
    operator.sees("charged 3, refunded 0 so far, 3 left")
    operator.looks("refund-effect")
    operator.press("Refund")
    operator.sees("2 credits refunded, acme has 49 available")
    operator.looks("job-refunded")
    operator.page.get_by_role("link", name="refund of 2").click()
    operator.sees("ticket 9: two of three were blurred")
    operator.looks("refund-entry")
    assert money(job.tenant)[0] == 49 * MICRO


@pytest.mark.usefixtures("within_one_day")
def test_an_allowance_is_added_and_stopped(operator: Operator) -> None:
    factories.make_tenant(name="acme", credits=50)
    operator.log_in()
    _open(operator, "Tenants", "acme")
    operator.press("Add an allowance")
    operator.page.fill("#id_amount", "5")
    operator.page.select_option("#id_every", "month")
    operator.page.select_option("#id_lifetime", "days")
    operator.page.fill("#id_reason", "plan S")
    operator.looks("allowance-form")
    operator.press("Show the effect")
    operator.sees("How many days?")
    operator.page.fill("#id_days", "45")
    operator.press("Show the effect")
    operator.sees("one more: 5 credits each month, promo, can be used for 45 days from its begin")
    operator.looks("allowance-effect")
    operator.press("Add an allowance")
    operator.sees("can be used for 45 days")
    assert grant_allowances() == 1
    operator.looks("tenant-with-allowance")
    operator.page.get_by_role("link", name="5 credits each month").first.click()
    operator.sees("reason: plan S")
    operator.looks("allowance-added")
    operator.press("Stop")
    operator.page.fill("#id_reason", "left plan S")
    operator.press("Show the effect")
    operator.sees("stopped, nothing more is granted")
    operator.looks("stop-effect")
    operator.press("Stop")
    operator.sees("Start again")
    operator.sees("left plan S")
    operator.looks("allowance-stopped")
    assert not Allowance.objects.get().enabled
    assert LogEntry.objects.count() == 4, "two deeds, each at the allowance and at its tenant"


def _open(operator: Operator, entry: str, row: str) -> None:
    """From the menu to the page of a row."""
    operator.choose(entry)
    operator.page.get_by_role("link", name=row).first.click()
    operator.page.wait_for_load_state()
