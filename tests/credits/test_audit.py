"""Each rule of the audit finds the breach it is there for, and nothing in a healthy ledger."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pgtrigger
import pytest
from django.db import connection, transaction

from broker_project import checkpoint
from broker_project.audit import audit, audit_and_remember
from broker_project.touched import Part
from credits import ledger
from credits.audit import RULES
from credits.ledger import Closing
from tests.credits.conftest import hold_one, let_expire

pytestmark = pytest.mark.django_db
Open = Callable[..., int]
SOON = datetime.now(UTC) + timedelta(days=1)  # after all tests, however long they take

# What a bug or a stray UPDATE could do once the guards that forbid it are gone.
BREACHES = {
    "P5.balance_equals_entries": "UPDATE credits_balance SET posted = posted + 1",
    "P5.held_equals_open_holds": "UPDATE credits_balance SET held = held + 1",
    "P5.captured_equals_settle_entry": "DELETE FROM credits_transfer WHERE code = 'settle' AND amount = 8",
    "P5.overrun_equals_entry": "UPDATE credits_transfer SET amount = amount - 1 WHERE code = 'overrun_absorb'",
    "P5.one_settle_per_hold": """
        INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code, hold_id)
        SELECT 'again:' || id, ledger, debit_id, credit_id, amount, code, hold_id
        FROM credits_transfer WHERE code = 'settle'
    """,
    "P5.settle_charges_the_holder": """
        UPDATE credits_transfer SET debit_id = (SELECT min(id) FROM credits_account WHERE kind = 'receivable')
        WHERE code = 'settle'
    """,
    "P5.one_tenant_hold_per_run": """
        INSERT INTO credits_hold (account_id, job_id, run, amount, review_at)
        SELECT (SELECT id FROM credits_account WHERE kind = 'revenue'), job_id, run, 0, review_at FROM credits_hold
    """,
    "P5.floor_respected": "UPDATE credits_balance SET posted = hard_floor + held - 1",
    "P5.ledgers_sum_to_zero": """
        ALTER TABLE credits_transfer DROP CONSTRAINT transfer_debit_ledger;
        WITH foreign_account AS (
            INSERT INTO credits_account (ledger, kind, owner_id) VALUES ('resource:usd', 'upstream', 1) RETURNING id)
        INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code)
        SELECT 'cross', 'tenant', f.id, a.id, 5, 'x' FROM foreign_account f, credits_account a WHERE a.kind = 'revenue'
    """,
    "P5.open_holds_are_reviewed": """
        UPDATE credits_hold SET review_at = now() - interval '61 minutes' WHERE status = 'open'
    """,
    "P5.late_completion_is_of_a_released_hold": """
        UPDATE credits_transfer SET hold_id = (SELECT min(id) FROM credits_hold WHERE status = 'captured')
        WHERE code = 'late_completion'
    """,
    "P5.one_late_completion_per_hold": """
        INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code, hold_id)
        SELECT 'again:' || id, ledger, debit_id, credit_id, amount, code, hold_id
        FROM credits_transfer WHERE code = 'late_completion'
    """,
    "P5.lot_reserved_equals_open_holds": "UPDATE credits_lot SET reserved = reserved + 1 WHERE remaining > reserved",
    "P5.lot_equals_its_entry": "UPDATE credits_lot SET amount = amount + 1",
    "P5.posted_is_backed_by_lots": "UPDATE credits_lot SET remaining = remaining - 1 WHERE remaining > reserved",
    "P5.debt_has_no_free_lot": "UPDATE credits_balance SET posted = posted - 1",
    "P5.credit_used_within_the_floor": "UPDATE credits_balance SET hard_floor = 0, held = held + 1",
    "P5.lot_parts_within_its_amount": """
        UPDATE credits_lot SET remaining = remaining + 1 WHERE starts_with(source_key, 'grant:gift')
    """,
    "P5.hold_is_charged_to_its_lots": "UPDATE credits_holdlot SET captured = captured - 1 WHERE captured > 0",
    "P5.owed_equals_entries": "UPDATE credits_balance SET owed = owed + 1",
    "P5.budgets_count_every_charge": "UPDATE credits_balance SET day_charged = day_charged - 1",
    "P5.refunds_within_the_charge": "UPDATE credits_transfer SET amount = 100 WHERE code = 'refund'",
}


def breaches(rule: str, part: Part | None = None) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in audit({rule: RULES[rule]}, part)[rule].rows]


@pytest.fixture(params=["all", "since the checkpoint"])
def part(request: pytest.FixtureRequest) -> Part | None:
    """Each form of the audit; the checkpoint is older than the ledger."""
    if request.param == "all":
        return None
    assert audit_and_remember().moved
    found = checkpoint.load()
    assert found is not None
    return Part(found.marks)


@pytest.fixture(autouse=True)
def _a_ledger_with_everything_in_it(part: Part | None, open_tenant: Open) -> None:
    tenant = open_tenant(100, credit_limit=10)
    for amount in (8, 15):
        ledger.settle([Closing(hold_one(tenant, 10), 0, amount)])
    given_back = hold_one(tenant, 10)
    ledger.release([(given_back, 0)], "failed")
    ledger.book_late_completion(given_back, 0, 6)
    hold_one(tenant, 10)
    hold_one(tenant, 0, uuid4())
    ledger.grant(tenant, 20, f"gift {tenant}", category="promo", priority=1, expires_at=SOON)
    refunded = hold_one(tenant, 15)
    ledger.settle([Closing(refunded, 0, 12)])
    ledger.refund(refunded, 0, 5, "ticket")
    let_expire(f"gift {tenant}")
    ledger.expire_due()
    in_debt = open_tenant(10, credit_limit=50)
    ledger.settle([Closing(hold_one(in_debt, 40), 0, 40)])


@pytest.mark.parametrize("rule", RULES)
def test_a_healthy_ledger_has_no_breach(part: Part | None, rule: str) -> None:
    assert breaches(rule, part) == []


@pytest.mark.parametrize("rule", RULES)
def test_a_breach_is_found(part: Part | None, rule: str) -> None:
    with transaction.atomic():
        with pgtrigger.ignore(), connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("ALTER TABLE credits_balance DROP CONSTRAINT balance_above_hard_floor")
            cursor.execute(BREACHES[rule])
        found = breaches(rule, part)
        transaction.set_rollback(True)
    assert found
    assert all(row[1] != row[2] for row in found)
    assert breaches(rule, part) == []


@pytest.mark.parametrize(
    "breach",
    [
        # Noted and forgotten; for nobody; from the wallet; more than was held.
        """INSERT INTO credits_holdreview (hold_id, due_at)
           SELECT id, now() - interval '61 minutes' FROM credits_hold WHERE status = 'open'""",
        "UPDATE credits_transfer SET hold_id = NULL WHERE code = 'late_completion'",
        """UPDATE credits_transfer SET debit_id = (SELECT min(id) FROM credits_account WHERE kind = 'wallet')
           WHERE code = 'late_completion'""",
        "UPDATE credits_transfer SET amount = 11 WHERE code = 'late_completion'",
    ],
)
def test_a_forgotten_review_and_a_late_completion_that_is_none_are_found(breach: str) -> None:
    rules = ("P5.open_holds_are_reviewed", "P5.late_completion_is_of_a_released_hold")
    with transaction.atomic():
        with pgtrigger.ignore(), connection.cursor() as cursor:
            cursor.execute(breach)
        found = [rule for rule in rules if breaches(rule)]
        transaction.set_rollback(True)
    assert len(found) == 1


@pytest.mark.parametrize(
    "breach",
    [
        # An entry that credits a wallet and made no lot; a lot that no entry made; one that belongs to somebody else.
        "UPDATE credits_transfer SET lot_id = NULL WHERE code = 'refund'",
        "DELETE FROM credits_transfer WHERE code = 'refund'",
        "UPDATE credits_lot SET account_id = (SELECT min(account_id) FROM credits_lot)"
        " WHERE account_id = (SELECT max(account_id) FROM credits_lot)",
    ],
)
def test_a_lot_without_its_entry_is_found(part: Part | None, breach: str) -> None:
    with transaction.atomic():
        with pgtrigger.ignore(), connection.cursor() as cursor:
            cursor.execute(breach)
        found = breaches("P5.lot_equals_its_entry", part)
        transaction.set_rollback(True)
    assert found
