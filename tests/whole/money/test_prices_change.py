"""A job's price is what it was at its submit, whatever is applied while it waits and runs."""

import pytest

from tests.whole.money.world import PRICE, World, accepted
from tests.whole.running import wait_for

pytestmark = pytest.mark.processes
JOBS = 100
PRICED = """
SELECT j.price / 1000000, count(*) FROM jobs_job j JOIN tenants_tenant t ON t.id = j.tenant_id
WHERE t.name = %s GROUP BY j.price, j.price_version ORDER BY 1
"""
TENANT, TYPE = "before the change", "becomes dearer"


def test_a_price_that_changes_while_jobs_run_is_that_of_later_jobs(world: World) -> None:
    begun = world.report()["executions"]
    ids = accepted(world.submit(TENANT, TYPE, [{"latency_ms": 400}] * JOBS))
    wait_for(lambda: world.report()["executions"] > begun)  # some run, most wait
    world.apply(**{TYPE: {"price": str(10 * PRICE), "settle": "10 * outcome.units", "overrun": "debt"}})
    later = accepted(world.submit(TENANT, TYPE, [{}]))
    assert {job["credits"]["charged"] for job in world.jobs(TENANT, ids)} == {"1.000000"}
    assert [job["credits"]["charged"] for job in world.jobs(TENANT, later)] == ["10.000000"]
    assert world.rows(PRICED, [TENANT]) == [(PRICE, JOBS), (10 * PRICE, 1)]
    assert world.balance(TENANT) == (1_000 - JOBS - 10, 0, 1_000 - JOBS - 10)
