"""A database from before rests were told apart: what rested then for the upstream's sake still does so after the upgrade."""

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from pool import transitions as sessions
from pool.audit import RULES
from pool.models import Resource
from tests.db import execute, rows

pytestmark = pytest.mark.django_db(transaction=True)
BEFORE = ("pool", "0005_upstream_credits")

OLD_STATE = """
INSERT INTO pool_pool (id, name, "order", "window", cooldown_ms, upstream, accepting, virtual_time, declared)
OVERRIDING SYSTEM VALUE VALUES (1, 'old', 'fair', 10, 0, '{}', true, 0, '{}');
INSERT INTO pool_upstreamaccount (id, pool_id, name, sessions, sealed_credential, base_url, labels, vars, declared)
OVERRIDING SYSTEM VALUE VALUES (1, 1, 'a', 3, '', '', '{}', '{}', '{}');
INSERT INTO pool_resource (id, pool_id, account_id, number, state, accepting, fence, reason, version)
OVERRIDING SYSTEM VALUE SELECT n, 1, 1, n, 'available', true, 0, '', 0 FROM generate_series(1, 3) n;
UPDATE pool_resource SET state = 'cooldown', available_at = now() + interval '1 minute' WHERE id = 1;
UPDATE pool_resource SET state = 'cooldown', available_at = now() + interval '1 hour',
       rest_until = now() + interval '1 hour', note = 'odd' WHERE id = 2;
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
def test_a_retry_after_goes_on_and_an_operators_quarantine_can_be_ended() -> None:
    assert {name: found for name, sql in RULES.items() if (found := rows(sql))} == {}
    sessions.enable([1, 2, 3])
    assert list(Resource.objects.order_by("id").values_list("state", flat=True)) == [
        "cooldown",
        "available",
        "available",
    ]
