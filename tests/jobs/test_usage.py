"""What an upstream says was used is another's word: bounded, and shown to an operator where it cannot be believed."""

import pytest

from jobs import transitions
from jobs.models import Job, JobType
from tests.factories import MICRO, end, make_job_type, make_tenant, money, submit
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db


def ended(job_type: JobType, **said: object) -> tuple[Job, int]:
    """The job after this answer, and what its tenant has left of 1,000 credits."""
    tenant = make_tenant()
    job = submit(tenant, job_type)
    transitions.assign(job.pool_id)
    end(job, Outcome(over=True, verdict="succeeded", **said))  # type: ignore[arg-type]
    posted, held = money(tenant)
    assert held == 0
    return job, posted // MICRO


@pytest.mark.parametrize(
    ("units", "charged", "flag"),
    [
        (3, 3, ""),
        (0, 0, ""),
        (30, 10, "usage above the hold, absorb: 20"),
        (100, 10, "usage above the hold, absorb: 90"),
        (101, 10, "absurd usage: 101.000000 for 10.000000 held"),
        (1e12, 10, "settle: a price cannot be above"),
        (-5, 10, "settle: a price cannot be negative"),
        (None, 10, "settle: "),
    ],
)
def test_a_charge_lies_between_nothing_and_the_hold(units: float | None, charged: int, flag: str) -> None:
    job, left = ended(make_job_type(), units=units)
    assert (job.state, job.charged, left) == ("completed", charged * MICRO, 1_000 - charged)
    assert job.flagged.startswith(flag)
    assert bool(job.flagged) == bool(flag)


def test_debt_is_owed_as_far_as_it_can_be_believed() -> None:
    kind = make_job_type(overrun="debt")
    assert ended(kind, units=40)[0].flagged == "usage above the hold, debt: 30"
    assert ended(kind, units=1_000)[0].flagged.startswith("absurd usage")


def test_usage_that_was_not_needed_is_flagged_too_when_it_makes_no_sense() -> None:
    job, left = ended(make_job_type(settle=""), usage_problem="response.body.units: there is none")
    assert (job.charged, left, job.flagged) == (10 * MICRO, 990, "response.body.units: there is none")


@pytest.mark.parametrize("overrun", ["absorb", "debt"])
def test_usage_of_a_free_job_is_believed_up_to_a_bound(overrun: str) -> None:
    job, left = ended(make_job_type(price="0", overrun=overrun), units=1_000_000)
    assert (job.charged, left) == (0, 1_000)
    assert job.flagged == "absurd usage: 1000000.000000 for 0.000000 held"


@pytest.mark.parametrize(
    "odd",
    [
        {"units": float("nan")},
        {"units": float("inf")},
        {"cost": float("nan")},
        {"result": {"score": float("inf"), "at": object(), "deep": [b"x", {1: "\x00"}]}},
    ],
)
def test_an_answer_of_an_adapter_that_is_no_json_ends_its_job(odd: dict[str, object]) -> None:
    job, _ = ended(make_job_type(), **{"units": 3.0, **odd})
    assert job.state == "completed"
    assert bool(job.flagged) == ("result" not in odd)


def test_a_free_job_whose_usage_costs_is_flagged() -> None:
    job, left = ended(make_job_type(price="0"), units=5)
    assert (job.charged, left, job.flagged) == (0, 1_000, "usage above the hold, absorb: 5")
