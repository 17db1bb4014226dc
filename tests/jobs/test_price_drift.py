"""`manage.py price_drift`: what was held against what was charged, and what accounts were expected to give and gave."""

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from credits import ledger
from jobs import transitions
from tests.db import execute
from tests.factories import FAILURE, MICRO, SUCCESS, at, end, make_job_type, make_tenant, make_tracked_pool, submit
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db(transaction=True)


def drift(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    call_command("price_drift", "--json", *arguments)
    return json.loads(capsys.readouterr().out)


def used(units: float, **more: Any) -> Outcome:
    return Outcome(over=True, verdict="succeeded", units=units, **more)


def test_charges_are_compared_with_holds_by_type(capsys: pytest.CaptureFixture[str]) -> None:
    pool = make_tracked_pool(None)
    clip = make_job_type(pool, name="clip")
    debt = make_job_type(pool, name="debt", overrun="debt")
    tenant = make_tenant()
    ended = []
    for kind, units in ((clip, 3), (clip, 5), (clip, 12), (debt, 11), (clip, 1e6)):
        job = submit(tenant, kind)
        assert transitions.assign(pool.pk) == 1
        ended.append(end(job, used(units)))
    ledger.refund(ended[0].pk, 1, 2 * MICRO, "sorry")
    ledger.refund(ended[0].pk, 1, MICRO, "very sorry")
    submit(tenant, clip)  # not completed
    found = drift(capsys)
    assert (found["days"], found["jobs"]) == (7, 6)
    assert found["tenants"] == [
        {"type": "clip", "completed": 4, "held": "40.000000", "charged": "28.000000", "mean_ratio": 0.7,
         "absorbed_jobs": 1, "absorbed": "2.000000", "owed_jobs": 0, "owed": "0.000000", "flagged": 2,
         "refunds": 2, "refunded": "3.000000"},
        {"type": "debt", "completed": 1, "held": "10.000000", "charged": "10.000000", "mean_ratio": 1.0,
         "absorbed_jobs": 0, "absorbed": "0.000000", "owed_jobs": 1, "owed": "1.000000", "flagged": 1,
         "refunds": 0, "refunded": "0.000000"},
    ]  # fmt: skip
    assert found["accounts"] == []


def test_costs_are_compared_with_what_attempts_took_failed_ones_apart(capsys: pytest.CaptureFixture[str]) -> None:
    pool = make_tracked_pool(1000)
    clip = make_job_type(pool, name="clip", cost="8")
    for outcome in (used(1, cost=2.0), used(1, cost=14.0), used(1), FAILURE):
        job = submit(make_tenant(), clip)
        transitions.assign(pool.pk)
        end(job, outcome)
    assert drift(capsys)["accounts"] == [
        {"type": "clip", "succeeded": True, "attempts": 3, "expected": "24.000000", "charged": "24.000000", "mean_ratio": 1.0},
        {"type": "clip", "succeeded": False, "attempts": 1, "expected": "8.000000", "charged": "8.000000", "mean_ratio": 1.0},
    ]  # fmt: skip


def test_a_free_type_has_no_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    at("completed", make_job_type(price="0", settle=""))
    assert drift(capsys)["tenants"][0]["mean_ratio"] is None
    call_command("price_drift")
    assert "–" in capsys.readouterr().out


def test_only_the_days_asked_for_are_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    old, new = at("completed"), at("completed")
    execute("UPDATE jobs_job SET created_at = created_at - interval '3 days' WHERE id = %s", [old.pk])
    assert [row["type"] for row in drift(capsys, "--days", "2")["tenants"]] == [new.type.name]
    assert drift(capsys, "--days", "4")["jobs"] == 2


def test_it_is_printed_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    pool = make_tracked_pool(1000)
    job = submit(make_tenant(), make_job_type(pool, name="clip"))
    transitions.assign(pool.pk)
    end(job, SUCCESS)
    call_command("price_drift")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Of the jobs submitted in 7 days (1)."
    assert "Far below 1 the price holds too much" in lines[2]
    assert lines[4].split() == ["clip", "1", "10", "3", "0.300", "0.300", "0", "0", "0", "0"]
    assert lines[8].split() == ["clip", "succeeded", "1", "10", "3", "0.300", "0.300"]


@pytest.mark.parametrize("days", ["0", "367"])
def test_days_have_bounds(days: str) -> None:
    with pytest.raises(CommandError, match="--days: is from 1 to 366"):
        call_command("price_drift", "--days", days)
