"""Money in an operator's hands: granted, refunded, a line set; each once, with its reason kept where one looks for it."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import DatabaseError

from credits.errors import InsufficientCredits
from credits.lines import line_of
from credits.models import Lot, Transfer
from tests import factories
from tests.control.conftest import Operator
from tests.factories import MICRO, money

pytestmark = pytest.mark.django_db
GIFT = {"amount": "2.5", "category": "promo", "priority": "20", "expires_at": "2099-12-01T10:00", "reason": "invoice 7"}
PLAIN = {"amount": "2.5", "category": "paid", "priority": "50", "reason": "invoice 7"}


def test_credits_are_granted_once_with_the_reason_kept(operator: Operator) -> None:
    tenant = factories.make_tenant(credits=10)
    shown = operator.effect("grant", tenant, **PLAIN)
    assert "10 available, 0 held" in shown
    assert "12.5 available" in shown
    assert money(tenant)[0] == 10 * MICRO, "looking changes nothing"
    page = operator.hidden("grant", tenant)
    assert "2.5 credits granted, 12.5 are available" in operator.do("grant", tenant, hidden=page, **PLAIN)
    assert "booked already" in operator.do("grant", tenant, hidden=page, **PLAIN)
    assert money(tenant)[0] == 12.5 * MICRO
    entry = Transfer.objects.latest("id")
    assert (entry.code, entry.op_key) == ("grant_paid", f"grant:admin:{page['token']}:{tenant.pk}")
    assert {kept.user.get_username() for kept in LogEntry.objects.all()} == {"root"}
    for place in (tenant, entry):
        assert operator.page(place).count("invoice 7") == 1, place


def test_a_gift_has_its_category_expiry_and_priority(operator: Operator) -> None:
    tenant = factories.make_tenant(credits=10)
    shown = operator.effect("grant", tenant, **GIFT)
    assert "12.5 available; 2.5 of it until 2099-12-01 10:00 UTC" in shown
    operator.do("grant", tenant, **GIFT)
    lot = Lot.objects.latest("id")
    assert (lot.category, lot.priority, f"{lot.expires_at:%Y-%m-%d %H:%M}") == ("promo", 20, "2099-12-01 10:00")
    assert "grant:admin:" in operator.page(lot), "the lot leads to its entry, and that to the reason"


@pytest.mark.parametrize("amount", ["0", "-1", "1.0000001", "1e20", "NaN", "many", ""])
def test_an_amount_that_is_none_is_refused(operator: Operator, amount: str) -> None:
    tenant = factories.make_tenant(credits=10)
    operator.do("grant", tenant, **{**PLAIN, "amount": amount})
    assert money(tenant)[0] == 10 * MICRO


@pytest.mark.parametrize(
    ("form", "field", "said"),
    [
        ({"reason": ""}, "reason", "This field is required"),
        ({"expires_at": "2020-01-01T00:00"}, "expires_at", "It must lie ahead; now it is 20"),
        ({"expires_at": "soon"}, "expires_at", "Enter a valid date/time"),
        ({"expires_at": "275760-01-01T00:00"}, "expires_at", "Enter a valid date/time"),
        ({"category": "stolen"}, "category", "Select a valid choice"),
        ({"priority": ""}, "priority", "This field is required"),
        ({"priority": "32768"}, "priority", "less than or equal to 32767"),
    ],
)
def test_a_grant_that_makes_no_sense_is_refused_at_its_field(
    operator: Operator, form: dict[str, str], field: str, said: str
) -> None:
    tenant = factories.make_tenant(credits=10)
    assert said in operator.do("grant", tenant, **{**PLAIN, **form})
    refused = operator.post("grant", tenant, **{**PLAIN, **form})
    assert list(refused.context["form"].errors) == [field]
    assert money(tenant)[0] == 10 * MICRO


def test_what_cannot_be_recorded_is_not_booked(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = factories.make_tenant(credits=10)
    hidden = operator.hidden("grant", tenant)

    def refuse(**_fields: Any) -> None:
        raise DatabaseError("the record cannot be kept")

    monkeypatch.setattr(LogEntry.objects, "create", refuse)
    with pytest.raises(DatabaseError, match="cannot be kept"):
        operator.do("grant", tenant, hidden=hidden, **PLAIN)
    assert money(tenant)[0] == 10 * MICRO


def test_a_line_is_raised_and_lowered_with_its_floor(operator: Operator) -> None:
    tenant = factories.make_tenant(credits=10)
    shown = operator.effect("credit-line", tenant, amount="50", reason="contract 4")
    assert "line 0, floor 0, 10 available; 0 used and held on credit" in shown
    assert "line 50, floor -50, 60 available" in shown
    assert "line 50, floor -50, 60 available" in operator.do("credit-line", tenant, amount="50", reason="contract 4")
    assert _line(tenant) == (50, -50, 0)
    assert "it stands so already" in operator.effect("credit-line", tenant, amount="50", reason="again")
    operator.do("credit-line", tenant, amount="20", reason="contract 5")
    assert _line(tenant) == (20, -20, 0)
    page = operator.page(tenant)
    assert "line 20" in page
    assert "contract 4" in page
    assert "contract 5" in page


def test_a_floor_in_use_stays_when_the_line_is_lowered(operator: Operator) -> None:
    tenant = factories.make_tenant(credits=10)
    operator.do("credit-line", tenant, amount="50", reason="contract 4")
    factories.submit_many(tenant, factories.make_job_type(), 42)  # of 1 credit each
    said = "line 20, floor -50, -12 available; the floor stays: 32 are used and held on credit"
    assert said in operator.effect("credit-line", tenant, amount="20", reason="x")
    assert said in operator.do("credit-line", tenant, amount="20", reason="x")
    assert _line(tenant) == (20, -50, 32)
    with pytest.raises(InsufficientCredits):
        factories.submit(tenant, factories.make_job_type())


def test_a_line_that_was_set_in_the_meantime_is_left_alone(operator: Operator) -> None:
    tenant = factories.make_tenant(credits=10)
    page = operator.hidden("credit-line", tenant)
    operator.do("credit-line", tenant, hidden=page, amount="50", reason="x")
    again = operator.do("credit-line", tenant, hidden=page, amount="70", reason="y")
    assert "it has moved on since this page was made" in again
    assert _line(tenant) == (50, -50, 0)
    assert LogEntry.objects.count() == 1


@pytest.mark.parametrize(
    ("form", "field"),
    [({"amount": "-1", "reason": "x"}, "amount"), ({"amount": "", "reason": "x"}, "amount"),
     ({"amount": "1e15", "reason": "x"}, "amount"), ({"amount": "5", "reason": " "}, "reason")],
)  # fmt: skip
def test_a_line_that_makes_no_sense_is_refused_at_its_field(
    operator: Operator, form: dict[str, str], field: str
) -> None:
    tenant = factories.make_tenant(credits=10)
    refused = operator.post("credit-line", tenant, confirm="1", **form)
    assert list(refused.context["form"].errors) == [field]
    assert _line(tenant) == (0, 0, 0)


def test_a_part_of_a_charge_is_refunded_and_then_the_rest(operator: Operator) -> None:
    job = factories.at("completed")  # charged 3 of 1,000
    assert "charged 3, refunded 0 so far, 3 left" in operator.effect("refund", job, amount="2", reason="ticket 9")
    assert f"2 go back to {job.tenant}; 1 left" in operator.effect("refund", job, amount="2", reason="ticket 9")
    told = operator.do("refund", job, amount="2", reason="ticket 9")
    assert f"2 credits refunded, {job.tenant} has 999 available" in told
    assert "refund of 2" in told
    assert "charged 3, refunded 2 so far, 1 left" in operator.effect("refund", job, amount="", reason="all of it")
    operator.do("refund", job, amount="", reason="all of it")
    assert money(job.tenant)[0] == 1_000 * MICRO
    assert "undo Refund" not in operator.page(job), "the button is gone"
    assert "nothing is left of the charge" in operator.effect("refund", job, amount="", reason="more")
    for place in (job, job.tenant, Transfer.objects.latest("id")):
        assert "all of it" in operator.page(place), place


def test_a_refund_that_is_sent_twice_is_booked_once(operator: Operator) -> None:
    job = factories.at("completed")
    page = operator.hidden("refund", job)
    operator.do("refund", job, hidden=page, amount="1", reason="x")
    assert "it has moved on since this page was made" in operator.do("refund", job, hidden=page, amount="1", reason="x")
    fresh = {**operator.hidden("refund", job), "token": page["token"]}  # as if both had been sent at once
    assert "booked already" in operator.do("refund", job, hidden=fresh, amount="1", reason="x")
    assert money(job.tenant)[0] == 998 * MICRO


def test_more_than_is_left_is_refused_in_the_ledgers_words(operator: Operator) -> None:
    job = factories.at("completed")
    assert "not done: only 3 credits are left" in operator.effect("refund", job, amount="3.000001", reason="x")
    told = operator.do("refund", job, amount="3.000001", reason="x")
    assert "3000001 micro-credits are more than is left of the charge" in told
    assert money(job.tenant)[0] == 997 * MICRO
    assert not LogEntry.objects.exists()


def test_a_job_that_was_charged_nothing_has_nothing_to_refund(operator: Operator) -> None:
    job = factories.at("failed")
    assert "undo Refund" not in operator.page(job)
    assert "not done: it was charged nothing" in operator.effect("refund", job, amount="", reason="x")
    assert "it was charged nothing" in operator.do("refund", job, amount="", reason="x")


@pytest.mark.parametrize("amount", ["0", "-1", "much"])
def test_a_refund_of_no_amount_is_refused_at_its_field(operator: Operator, amount: str) -> None:
    job = factories.at("completed")
    refused = operator.post("refund", job, confirm="1", amount=amount, reason="")
    assert list(refused.context["form"].errors) == ["amount", "reason"]
    assert money(job.tenant)[0] == 997 * MICRO


@pytest.mark.parametrize(
    ("operation", "button", "needed"),
    [
        ("grant", "Grant credits", "add_transfer"),
        ("credit-line", "Set the credit line", "change_balance"),
        ("add-allowance", "Add an allowance", "add_allowance"),
        ("refund", "undo Refund", "add_transfer"),
    ],
)
def test_without_the_permission_there_is_no_button_and_no_page(
    onlooker: Callable[..., Operator], operation: str, button: str, needed: str
) -> None:
    job = factories.at("completed")
    row = job if operation == "refund" else job.tenant
    looking = onlooker("view_job", "view_tenant")
    assert button not in looking.page(row)
    assert looking.open(operation, row).status_code == 403
    assert looking.post(operation, row, confirm="1", **PLAIN).status_code == 403
    assert money(job.tenant)[0] == 997 * MICRO
    looking.may("view_job", "view_tenant", needed)
    assert button in looking.page(row)
    assert looking.open(operation, row).status_code == 200


def test_a_login_that_did_something_is_not_deleted(operator: Operator, onlooker: Callable[..., Operator]) -> None:
    other = onlooker("view_tenant", "add_transfer")
    address = f"/admin/auth/user/{other.user.pk}/delete/"
    assert operator.client.get(address).status_code == 200
    other.do("grant", factories.make_tenant(), **PLAIN)
    assert operator.client.post(address, {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [str(other.user.pk)], "post": "yes"}
    operator.client.post("/admin/auth/user/", chosen)
    assert LogEntry.objects.filter(user=other.user, change_message__contains="invoice 7").count() == 2


def _line(tenant: Any) -> tuple[float, float, float]:
    line = line_of(tenant.pk)
    return line.limit / MICRO, line.floor / MICRO, line.in_use / MICRO
