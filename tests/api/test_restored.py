"""After a restore every answer says so, and a pool that is closed says until when."""

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs import restoring
from jobs.api import account, metrics, restored
from pool.models import Restoration
from tests import factories
from tests.api.conftest import Caller, body_of
from tests.db import execute

pytestmark = pytest.mark.django_db


def test_an_answer_says_when_the_database_went_back_and_to_when(caller: Caller) -> None:
    job_type = factories.make_job_type()
    first = caller.submit(job_type, idempotency_key="a-key-of-the-time-before")
    assert "Berth-Restored-At" not in first
    lost_since = timezone.now()
    restoring.restored(note="test", went_back_to=lost_since)
    restored.recent.forget()
    again = caller.submit(job_type, idempotency_key="a-key-of-the-time-before")
    new = caller.submit(job_type, idempotency_key="a-key-that-is-new-to-us")
    assert (again["Idempotency-Replayed"], "Idempotency-Replayed" in new) == ("true", False)
    for answer in (again, new, caller.get("/v1/jobs/00000000-0000-0000-0000-000000000000")):
        assert answer["Berth-Restored-To"] == lost_since.isoformat().replace("+00:00", "Z")
        assert answer["Berth-Restored-At"] > answer["Berth-Restored-To"]


def test_a_promoted_replica_does_not_know_what_it_lost(caller: Caller) -> None:
    restoring.restored(note="failover")
    restored.recent.forget()
    answer = caller.get("/v1/jobs")
    assert ("Berth-Restored-At" in answer, "Berth-Restored-To" in answer) == (True, False)


def test_where_nothing_was_lost_nothing_is_said(caller: Caller) -> None:
    restoring.restored(note="synchronous replica", nothing_lost=True)
    restored.recent.forget()
    assert "Berth-Restored-At" not in caller.get("/v1/jobs")


def test_a_month_later_nothing_is_said_any_more(caller: Caller) -> None:
    restoring.restored(note="test")
    execute("UPDATE pool_restoration SET at = at - interval '31 days'")
    assert Restoration.objects.get().at < timezone.now() - timedelta(days=30)
    restored.recent.forget()
    assert "Berth-Restored-At" not in caller.get("/v1/jobs")


def test_a_closed_pool_says_until_when_and_so_do_its_metrics(caller: Caller) -> None:
    pool = factories.make_job_type(factories.make_pool(name="video")).pool
    (before,) = body_of(caller.get("/v1/pools"))["data"]
    assert before["closed_until"] is None
    restoring.restored(note="test")
    account.recent.forget()
    pool.refresh_from_db()
    (after,) = body_of(caller.get("/v1/pools"))["data"]
    assert pool.quarantined_until is not None
    assert after["closed_until"] == pool.quarantined_until.isoformat().replace("+00:00", "Z")
    metrics.recent.forget()
    assert 'berth_pool_closed{pool="video"} 1.0' in metrics.text().decode()


def test_a_job_says_that_its_pool_keeps_it_waiting(caller: Caller) -> None:
    job_type = factories.make_job_type()
    job, later = (
        body_of(caller.submit(job_type, idempotency_key=f"a-key-of-long-before-{n}", **more))
        for n, more in enumerate(({}, {"run_at": (timezone.now() + timedelta(hours=1)).isoformat()}))
    )
    restoring.restored(note="test")
    for each, waits in ((job, "pool"), (later, "run_at")):
        assert body_of(caller.get(f"/v1/jobs/{each['id']}"))["waiting_for"] == waits
    assert {row["waiting_for"] for row in body_of(caller.get("/v1/jobs"))["data"]} == {"pool", "run_at"}
