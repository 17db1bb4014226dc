"""A database from before there were lots: after the migration it stands as if there had always been some."""

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from credits import ledger
from credits.audit import RULES
from credits.ledger import Closing
from credits.models import Hold, HoldLot
from tests.credits.conftest import let_expire, lots, money
from tests.db import execute, rows

pytestmark = pytest.mark.django_db(transaction=True)
BEFORE = ("credits", "0003_busy_tables")
RICH, ON_CREDIT, IN_DEBT, NEW = 1, 2, 3, 4

# As the verbs of the earlier version left it: grants, settlements, holds with and without an end.
OLD_STATE = """
INSERT INTO credits_account (id, ledger, kind, owner_id) OVERRIDING SYSTEM VALUE VALUES
    (1, 'tenant', 'issuer', NULL), (2, 'tenant', 'revenue', NULL), (3, 'tenant', 'loss', NULL),
    (5, 'tenant', 'receivable', 3),
    (11, 'tenant', 'wallet', 1), (12, 'tenant', 'wallet', 2), (13, 'tenant', 'wallet', 3), (14, 'tenant', 'wallet', 4);
INSERT INTO credits_balance (account_id, posted, held, credit_limit, hard_floor) VALUES
    (11, 95, 60, 0, 0), (12, 10, 25, 50, -50), (13, -40, 10, 50, -50), (14, 0, 0, 0, 0);
INSERT INTO credits_hold (id, account_id, job_id, run, amount, status, captured, overrun, review_at, resolved_at)
OVERRIDING SYSTEM VALUE
SELECT id, account, gen_random_uuid(), 1, amount, status, captured, CASE id WHEN 6 THEN 7 ELSE 0 END, now() + interval '1 day',
       CASE WHEN status <> 'open' THEN now() END
FROM (VALUES (1, 11, 55, 'captured', 55), (2, 11, 9, 'released', NULL), (3, 11, 40, 'open', NULL),
             (4, 11, 20, 'open', NULL), (5, 12, 25, 'open', NULL), (6, 13, 140, 'captured', 140),
             (7, 13, 10, 'open', NULL)) AS h (id, account, amount, status, captured);
INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code, hold_id) VALUES
    ('grant:opening', 'tenant', 1, 11, 100, 'grant_paid', NULL), ('grant:spring', 'tenant', 1, 11, 50, 'grant_promo', NULL),
    ('settle:1', 'tenant', 11, 2, 55, 'settle', 1), ('grant:two', 'tenant', 1, 12, 10, 'grant_paid', NULL),
    ('grant:three', 'tenant', 1, 13, 100, 'grant_paid', NULL), ('settle:6', 'tenant', 13, 2, 140, 'settle', 6),
    ('overrun:6', 'tenant', 5, 2, 7, 'overrun_debt', 6), ('repay:1', 'tenant', 1, 5, 3, 'repay', NULL);
SELECT setval(pg_get_serial_sequence('credits_account', 'id'), 100), setval(pg_get_serial_sequence('credits_hold', 'id'), 100)
"""


def migrate(*target: tuple[str, str]) -> None:
    """To these migrations; without one to the newest, which all other tests and the audit stand on."""
    executor = MigrationExecutor(connection)
    executor.migrate(list(target) or executor.loader.graph.leaf_nodes())


@pytest.fixture
def _upgraded() -> None:
    migrate(BEFORE)
    try:
        execute(OLD_STATE)
    finally:
        migrate()


@pytest.mark.usefixtures("_upgraded")
def test_every_rule_of_the_audit_holds_after_the_upgrade() -> None:
    assert {name: found for name, sql in RULES.items() if (found := rows(sql))} == {}


@pytest.mark.usefixtures("_upgraded")
def test_each_grant_became_a_lot_and_gifts_were_used_first() -> None:
    assert lots(RICH) == [("opening", 95, 60)]
    assert lots(ON_CREDIT) == [("two", 10, 10)]
    assert (lots(IN_DEBT), lots(NEW)) == ([], [])
    parts = HoldLot.objects.order_by("hold").values_list("hold", "lot__source_key", "amount", "captured")
    assert list(parts) == [
        (3, "grant:opening", 40, None),
        (4, "grant:opening", 20, None),
        (5, "grant:two", 10, None),
    ]
    assert rows("SELECT remaining, category FROM credits_lot WHERE source_key = 'grant:spring'") == [(0, "promo")]


@pytest.mark.usefixtures("_upgraded")
def test_what_was_owed_is_owed() -> None:
    assert [ledger.balances(tenant).owed for tenant in (RICH, IN_DEBT)] == [0, 4]


@pytest.mark.usefixtures("_upgraded")
def test_what_was_held_before_is_closed_as_ever() -> None:
    def close(hold_id: int, amount: int) -> None:
        ledger.settle([Closing(Hold.objects.get(pk=hold_id).job_id, 1, amount)])

    close(3, 30)
    close(4, 20)
    close(5, 25)
    close(7, 10)
    assert [money(tenant) for tenant in (RICH, ON_CREDIT, IN_DEBT)] == [(45, 0), (-15, 0), (-50, 0)]
    ledger.grant(IN_DEBT, 60, "invoice")
    assert (money(IN_DEBT), lots(IN_DEBT)) == ((10, 0), [("invoice", 10, 0)])
    assert ledger.grant(RICH, 100, "opening") is False
    let_expire("opening")
    assert ledger.expire_due() == 45


@pytest.mark.usefixtures("_upgraded")
def test_the_upgrade_can_be_taken_back_and_made_again() -> None:
    migrate(BEFORE)
    migrate()
    assert lots(RICH) == [("opening", 95, 60)]
