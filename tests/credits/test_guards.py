"""What the database refuses from anyone, also from psql."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from credits import ledger
from credits.ledger import Closing
from tests.credits.conftest import hold_one, money

pytestmark = pytest.mark.django_db
Open = Callable[..., int]


@contextmanager
def refused(match: str) -> Iterator[None]:
    with pytest.raises(DatabaseError, match=match), transaction.atomic():
        yield


def execute(sql: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.rowcount)


@pytest.fixture
def tenant(open_tenant: Open) -> int:
    """A wallet of 100 with one settled, one released and one open hold."""
    tenant = open_tenant(100)
    settled, released, _ = hold_one(tenant, 10), hold_one(tenant, 20), hold_one(tenant, 30)
    ledger.settle([Closing(settled, 0, 10)])
    ledger.release([(released, 0)], "failed")
    # Foreign keys are checked at commit; with a check still due, TRUNCATE fails for that reason alone.
    execute("SET CONSTRAINTS ALL IMMEDIATE")
    return tenant


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("UPDATE credits_transfer SET amount = amount + 1", "Cannot update or delete"),
        ("UPDATE credits_transfer SET op_key = op_key", "Cannot update or delete"),
        ("DELETE FROM credits_transfer", "Cannot update or delete"),
        ("TRUNCATE credits_transfer", "Cannot truncate"),
        ("TRUNCATE credits_account CASCADE", "Cannot truncate"),
        ("TRUNCATE credits_holdlot", "Cannot truncate"),
        ("TRUNCATE credits_lot CASCADE", "Cannot truncate"),
        ("TRUNCATE credits_hold CASCADE", "Cannot truncate"),
        ("DELETE FROM credits_lot", "Cannot delete"),
        ("UPDATE credits_lot SET amount = amount + 1", "Cannot update"),
        ("UPDATE credits_lot SET account_id = account_id + 1", "Cannot update"),
        ("UPDATE credits_lot SET source_key = 'x'", "Cannot update"),
        ("UPDATE credits_lot SET category = 'promo'", "Cannot update"),
        ("DELETE FROM credits_holdlot", "Cannot delete"),
        ("UPDATE credits_holdlot SET captured = 0 WHERE captured IS NOT NULL", "Cannot update"),
        ("UPDATE credits_holdlot SET amount = 1 WHERE captured IS NULL", "Cannot update"),
        ("UPDATE credits_holdlot SET lot_id = lot_id + 1 WHERE captured IS NULL", "Cannot update"),
        ("UPDATE credits_holdlot SET hold_id = hold_id - 1 WHERE captured IS NULL", "Cannot update"),
        ("UPDATE credits_account SET owner_id = 5", "Cannot update or delete"),
        ("DELETE FROM credits_hold", "Cannot delete"),
        ("UPDATE credits_hold SET reason = 'x' WHERE status = 'captured'", "Cannot update"),
        ("UPDATE credits_hold SET status = 'open', resolved_at = NULL WHERE status = 'released'", "Cannot update"),
        ("UPDATE credits_hold SET amount = 0 WHERE status = 'open'", "Cannot update"),
        ("UPDATE credits_hold SET run = 1 WHERE status = 'open'", "Cannot update"),
        ("UPDATE credits_hold SET attempt = 1 WHERE status = 'open'", "Cannot update"),
        ("UPDATE credits_hold SET job_id = gen_random_uuid() WHERE status = 'open'", "Cannot update"),
        ("UPDATE credits_hold SET account_id = account_id + 1 WHERE status = 'open'", "Cannot update"),
    ],
)
def test_what_was_booked_stays(tenant: int, sql: str, message: str) -> None:
    with refused(message):
        assert execute(sql) > 0
    assert money(tenant) == (90, 30)


@pytest.mark.parametrize(
    ("sql", "constraint"),
    [
        ("UPDATE credits_balance SET held = -1", "balance_held_not_negative"),
        ("UPDATE credits_balance SET posted = held - 1", "balance_above_hard_floor"),
        ("UPDATE credits_balance SET credit_limit = -1", "balance_credit_limit_not_negative"),
        ("UPDATE credits_balance SET hard_floor = 1", "balance_hard_floor_not_positive"),
        ("UPDATE credits_lot SET reserved = -1", "lot_reserved_within_remaining_within_amount"),
        ("UPDATE credits_lot SET reserved = remaining + 1", "lot_reserved_within_remaining_within_amount"),
        ("UPDATE credits_lot SET remaining = amount + 1", "lot_reserved_within_remaining_within_amount"),
        ("UPDATE credits_holdlot SET captured = -1 WHERE captured IS NULL", "holdlot_captured_within_amount"),
        ("UPDATE credits_holdlot SET captured = amount + 1 WHERE captured IS NULL", "holdlot_captured_within_amount"),
        ("UPDATE credits_hold SET status = 'gone', resolved_at = now() WHERE status = 'open'", "hold_status_known"),
        ("UPDATE credits_hold SET resolved_at = now() WHERE status = 'open'", "hold_open_until_resolved"),
        ("UPDATE credits_hold SET status = 'released' WHERE status = 'open'", "hold_open_until_resolved"),
        ("UPDATE credits_hold SET status = 'captured', resolved_at = now() WHERE status = 'open'", "has_amount"),
        ("UPDATE credits_hold SET captured = 1 WHERE status = 'open'", "hold_captured_has_amount"),
        (
            "UPDATE credits_hold SET status = 'captured', captured = 31, resolved_at = now() WHERE status = 'open'",
            "hold_captured_within_amount",
        ),
        (
            "UPDATE credits_hold SET status = 'captured', captured = 29, overrun = 1, resolved_at = now()"
            " WHERE status = 'open'",
            "hold_overrun_above_full_capture",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(tenant: int, sql: str, constraint: str) -> None:
    with refused(constraint):
        execute(sql)
    assert money(tenant) == (90, 30)


def insert(amount: int = 1, key: str = "grant:x", ledger_name: str = "tenant", credit: str = "wallet") -> int:
    return execute(
        "INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code)"
        f" SELECT '{key}', '{ledger_name}', i.id, w.id, {amount}, 'grant_paid'"
        f" FROM credits_account i, credits_account w WHERE i.kind = 'issuer' AND w.kind = '{credit}'"
    )


def test_a_transfer_joins_two_accounts_of_its_own_ledger(tenant: int) -> None:
    execute("INSERT INTO credits_account (ledger, kind, owner_id) VALUES ('resource:usd', 'upstream', 1)")
    with pytest.raises(IntegrityError, match="transfer_credit_ledger"), transaction.atomic():
        insert(credit="upstream")
    with pytest.raises(IntegrityError, match="transfer_debit_ledger"), transaction.atomic():
        insert(credit="upstream", ledger_name="resource:usd")
    with pytest.raises(IntegrityError, match="transfer_between_two_accounts"), transaction.atomic():
        insert(credit="issuer")
    with pytest.raises(IntegrityError, match="transfer_amount_positive"), transaction.atomic():
        insert(amount=0)
    with pytest.raises(IntegrityError, match="transfer_op_key"), transaction.atomic():
        insert(key=f"grant:opening:{tenant}")


def test_there_is_one_account_of_a_kind(tenant: int) -> None:
    for owner in ("NULL", str(tenant)):
        kind = "revenue" if owner == "NULL" else "wallet"
        with pytest.raises(IntegrityError, match="account_ledger_kind_owner"), transaction.atomic():
            execute(f"INSERT INTO credits_account (ledger, kind, owner_id) VALUES ('tenant', '{kind}', {owner})")


def reverse(code: str, amount: int, swapped: bool = True) -> int:
    """An entry that reverses the settlement, between its accounts swapped or not."""
    sides = "credit_id, debit_id" if swapped else "debit_id, credit_id"
    return execute(
        "INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code, reverses_id)"
        f" SELECT gen_random_uuid(), ledger, {sides}, {amount}, '{code}', id FROM credits_transfer WHERE code = 'settle'"
    )


@pytest.mark.tampers
def test_a_reversal_mirrors_its_entry_and_stays_within_it(tenant: int) -> None:
    for message, code, amount, swapped in [
        ("mirrors", "refund", 1, False),
        ("too much", "refund", 11, True),
        ("transfer_refund_reverses", "gift", 1, True),
    ]:
        with refused(message):
            reverse(code, amount, swapped)
    assert reverse("refund", 6) == 1
    with refused("too much"):
        reverse("refund", 5)
    assert reverse("refund", 4) == 1
    with refused("transfer_refund_reverses"):
        execute(
            "INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code)"
            " SELECT 'x', ledger, credit_id, debit_id, 1, 'refund' FROM credits_transfer WHERE code = 'settle'"
        )
