"""What the upstream says of its usage is believed within the hold; what is above is booked where the policy says."""

from typing import Any

import httpx
import pytest

from tests.whole.money.world import PRICE, USAGE, World, accepted

pytestmark = pytest.mark.processes
HOSTILE: list[Any] = [-5, -0.000001, None, "NaN", "7", "", 1e12, 1e15, 1e300, [1], {"units": 1}, True, False]
THRICE = {"sim": {"bad_usage": 3 * PRICE}}

OVERRUNS = """
SELECT x.code, payer.kind, sum(x.amount) / 1000000, count(*)
FROM credits_transfer x JOIN credits_account payer ON payer.id = x.debit_id
JOIN credits_hold h ON h.id = x.hold_id JOIN jobs_job j ON j.id = h.job_id JOIN tenants_tenant t ON t.id = j.tenant_id
WHERE t.name = %s AND x.code LIKE 'overrun%%' GROUP BY 1, 2
"""
JOBS = """
SELECT jt.name, j.state, j.price, j.charged, j.flagged, j.payload -> 'sim' -> 'bad_usage'
FROM jobs_job j JOIN jobs_jobtype jt ON jt.id = j.type_id JOIN tenants_tenant t ON t.id = j.tenant_id
WHERE t.name = %s ORDER BY j.id
"""


def test_usage_that_cannot_be_is_charged_within_the_hold_and_flagged(world: World) -> None:
    """Whatever the type's way to charge: negative, null, text, list, bool, huge and missing, all in real answers."""
    tenant = "hostile usage"
    payloads = [{"sim": {"bad_usage": value}} for value in HOSTILE]
    answers = [answer for job_type in USAGE for answer in world.submit(tenant, job_type, payloads)]
    ids = accepted(answers)
    assert len(ids) == len(USAGE) * len(HOSTILE)
    world.jobs(tenant, ids)
    spent = 0
    for job_type, state, price, charged, flagged, usage in world.rows(JOBS, [tenant]):
        assert (state, charged) == ("completed", price), (job_type, usage)  # what cannot be priced costs what was held
        # A number that is only large, and was not needed, may be true.
        assert flagged or ("held" in job_type and usage in (1e12, 1e15)), (job_type, usage)
        spent += charged / 1_000_000
    assert spent == 3 * PRICE * len(HOSTILE)
    assert world.balance(tenant) == (1_000 - spent, 0, 1_000 - spent)


def test_usage_that_is_no_json_is_no_success_and_gives_the_hold_back(world: World) -> None:
    """NaN as its bytes: the answer cannot be read, so nothing is known of it, and nothing is charged."""
    tenant = "unreadable usage"
    before = world.balance(tenant)
    # Python writes it so, and reads it so; no payload could carry it.
    rule = httpx.post(f"{world.simulator_url}/control/faults", content=b'{"fault": {"bad_usage": NaN}, "times": 1}')
    assert rule.status_code == 200
    ids = accepted(world.submit(tenant, "charged by usage, once", [{}]))
    (job,) = world.jobs(tenant, ids)
    assert (job["state"], job["error"]["code"], job["credits"]["charged"]) == ("failed", "outcome_unknown", "0.000000")
    assert world.balance(tenant) == before


@pytest.mark.parametrize(
    ("tenant", "job_type", "booked"),
    [
        ("used up, absorbed", "excess is absorbed", ("overrun_absorb", "loss")),
        ("used up, owed", "excess is owed", ("overrun_debt", "receivable")),
    ],
)
def test_usage_above_the_hold_passes_neither_the_wallet_nor_its_credit_line(
    world: World, tenant: str, job_type: str, booked: tuple[str, str]
) -> None:
    """10 credits and a line of 5 are seven jobs of 2, though each uses 6; what is above stands in an entry of its own.

    What is owed counts against what may be held, so there are fewer when some have ended before the last is submitted.
    """
    answers = world.submit(tenant, job_type, [THRICE] * 20)
    ids = accepted(answers)
    assert {answer.status for answer in answers} - {200, 202} == {402}  # 200: it had ended by then
    assert {(job["state"], job["credits"]["charged"]) for job in world.jobs(tenant, ids)} == {("completed", "2.000000")}
    owed = 4 * len(ids) if booked[1] == "receivable" else 0
    assert len(ids) <= 7 if owed else len(ids) == 7
    assert world.balance(tenant) == (10 - 2 * len(ids), 0, 15 - 2 * len(ids) - owed)
    assert world.rows(OVERRUNS, [tenant]) == [(*booked, 2 * PRICE * len(ids), len(ids))]
    (again,) = world.submit(tenant, job_type, [{}])
    assert (again.status, float(again.document["available"])) == (402, 15 - 2 * len(ids) - owed)
