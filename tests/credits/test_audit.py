"""Each rule of the audit finds the breach it is there for, and nothing in a healthy ledger."""

from collections.abc import Callable
from uuid import uuid4

import pgtrigger
import pytest
from django.db import connection, transaction

from credits import ledger
from credits.audit import RULES
from credits.ledger import Closing
from tests.credits.conftest import hold_one

pytestmark = pytest.mark.django_db
Open = Callable[..., int]

# What a bug or a stray UPDATE could do once the guards that forbid it are gone.
BREACHES = {
    "P5.balance_equals_entries": "UPDATE credits_balance SET posted = posted + 1",
    "P5.held_equals_open_holds": "UPDATE credits_balance SET held = held + 1",
    "P5.captured_equals_settle_entry": "DELETE FROM credits_transfer WHERE code = 'settle'",
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
}


def breaches(rule: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(RULES[rule])
        rows: list[tuple[object, ...]] = cursor.fetchall()
    return rows


@pytest.fixture(autouse=True)
def _a_ledger_with_everything_in_it(open_tenant: Open) -> None:
    tenant = open_tenant(100, credit_limit=10)
    for amount in (8, 15):
        ledger.settle([Closing(hold_one(tenant, 10), 0, amount)])
    ledger.release([(hold_one(tenant, 10), 0)], "failed")
    hold_one(tenant, 10)
    hold_one(tenant, 0, uuid4())


@pytest.mark.parametrize("rule", RULES)
def test_a_healthy_ledger_has_no_breach(rule: str) -> None:
    assert breaches(rule) == []


@pytest.mark.parametrize("rule", RULES)
def test_a_breach_is_found(rule: str) -> None:
    with transaction.atomic():
        with pgtrigger.ignore(), connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("ALTER TABLE credits_balance DROP CONSTRAINT balance_above_hard_floor")
            cursor.execute(BREACHES[rule])
        found = breaches(rule)
        transaction.set_rollback(True)
    assert found
    assert all(row[1] != row[2] for row in found)
    assert breaches(rule) == []
