"""How a plan says what changes: each field of the file once, in its words, whatever columns it becomes."""

from typing import Any

import pytest

from broker_project.config import schema, wording
from jobs.models import JobType
from pool.models import Pool
from tenants.models import Tenant
from tests.config.conftest import Apply
from upstream.quantities import rate

pytestmark = pytest.mark.django_db
POOL, CLIP, ACME = "pools.video", "job_types.clip", "tenants.acme"
FIELDS = {*schema.POOL, *schema.JOB_TYPE, *schema.TENANT}
# A field, what it is first and then, and its lines.
CHANGES: list[tuple[str, Any, Any, list[str]]] = [
    (f"{POOL}.cooldown", "2s", "1m", ["cooldown: 2s -> 1m"]),
    (f"{POOL}.breaker", None, {"quarantine": "1m"}, ['breaker: none -> {"quarantine": "1m"}']),
    (f"{POOL}.breaker", {"max": "1h"}, {"max": "2h"}, ["breaker.max: 1h -> 2h"]),
    (f"{POOL}.poll_rate", None, "60/minute", ["poll_rate: none -> 60/minute"]),
    (f"{CLIP}.max_payload", None, "1MB", ["max_payload: none -> 1MB"]),
    (f"{CLIP}.start_deadline", None, "1h", ["start_deadline: none -> 1h"]),
    (f"{CLIP}.retry", {"first": "1s"}, {"first": "2s"}, ["retry.first: 1s -> 2s"]),
    (f"{ACME}.max_file_bytes", None, "10GB", ["max_file_bytes: none -> 10GB"]),
    (
        f"{ACME}.budgets",
        {"day": 500},
        {"day": 600, "month": 1},
        ["budgets.day: 500 -> 600", "budgets.month: none -> 1"],
    ),
    (
        f"{ACME}.low_credits",
        {"below": 50},
        {"below": 60, "submit_rate": "2/second"},
        ["low_credits.below: 50 -> 60", "low_credits.submit_rate: none -> 2/second"],
    ),
]


def told(said: str) -> list[str]:
    return [line.strip() for line in said.splitlines() if " -> " in line]


@pytest.mark.parametrize(("place", "first", "then", "lines"), CHANGES, ids=[change[0] for change in CHANGES])
def test_a_field_is_told_once_in_the_words_of_the_file(
    apply: Apply, place: str, first: Any, then: Any, lines: list[str]
) -> None:
    apply((place, first))
    assert told(apply((place, then))) == lines


def test_what_somebody_else_changed_is_told_by_the_field_and_with_its_unit(apply: Apply) -> None:
    balance = {"path": "'/account'", "value": "response.body.balance", "every": "1h"}
    fields = ((f"{POOL}.balance", balance), (f"{POOL}.accounts.a1.credits", 5), (f"{POOL}.poll_rate", "60/minute"))
    apply(*fields)
    pool = Pool.objects.get()
    pool.upstream["balance"]["every_ms"], pool.upstream["balance"]["most"] = 1_500, 7_500_000
    pool.upstream["poll_rate"] = [5, 1_000]
    Pool.objects.update(cooldown_ms=90_000, upstream=pool.upstream, breaker={"failures": 3, "max_ms": 1_000})
    JobType.objects.update(max_runtime_ms=1, max_payload_bytes=1_500, retry={"first_ms": 250}, accepting=False)
    Tenant.objects.update(day_budget=500_000_000, low_below=2_500_000, low_pause_ms=250, max_file_bytes=10**10)
    assert set(told(apply(*fields))) == {
        "cooldown: 90s -> 0ms",
        "balance.every: 1500ms -> 1h",
        "balance.most: 7.5 -> none",
        "poll_rate: 5/second -> 60/minute",
        "breaker.failures: 3 -> none",
        "breaker.max: 1s -> none",
        "max_runtime: 1ms -> 5m",
        "max_payload: 1500B -> 256kB",
        "retry.first: 250ms -> none",
        "takes jobs: no -> yes",
        "budgets.day: 500 -> none",
        "low_credits.below: 2.5 -> none",
        "low_credits.submit_rate: 4/second -> 1/second",
        "max_file_bytes: 10GB -> none",
    }


@pytest.mark.parametrize("written", ["1/second", "3/second", "2/3s", "1/minute", "1000/second"])
def test_a_pause_is_told_as_the_rate_that_makes_it(written: str) -> None:
    limit, per_ms = rate(written)
    assert wording.differences({}, {}, {"low_pause_ms": (-(-per_ms // limit), None)}) == [
        f"low_credits.submit_rate: {written} -> none"
    ]


def test_no_column_is_told_by_a_name_of_its_own(apply: Apply) -> None:
    """Each column with a unit in its name has a field, so a new one cannot slip in."""
    units = ("_ms", "_bytes", "_budget", "_below")
    apply()
    for row in (Pool.objects.values().get(), JobType.objects.values().get(), Tenant.objects.values().get()):
        for column, value in row.items():
            if column.endswith(units):
                [line] = wording.differences({}, {}, {column: (value, 1_000)})
                assert line.partition(":")[0].partition(".")[0] in FIELDS, line
