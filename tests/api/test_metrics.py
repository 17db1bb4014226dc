"""The numbers of pools: each counts what it says, waits for no finished job, and is told in Prometheus' words."""

import time
from typing import Any

import pytest
from django.db import transaction

from credits import upstream_accounts
from jobs import redrives, transitions, turns
from jobs.api import metrics
from jobs.dead_letters import Filter
from jobs.models import JobType
from jobs.queries import affording, occupancy, pace
from pool import transitions as sessions
from pool.models import Resource
from statemachine.sql import Row
from tests import db, factories

pytestmark = pytest.mark.django_db


def pool_of(job_type: JobType) -> Row:
    return next(row for row in occupancy.by_pool() if row["id"] == job_type.pool_id)


def in_an_hour() -> dict[str, Any]:
    return {"run_at": db.value("SELECT clock_timestamp() + interval '1 hour'")}


def test_the_oldest_that_runs_is_told_and_so_is_a_redrive() -> None:
    job_type = factories.make_job_type(factories.make_pool(name="video"))
    factories.at("assigned", job_type)
    db.let_time_pass(90)
    factories.at("failed", factories.make_job_type())
    redrive, _ = redrives.begin(Filter(), 5, None, why="", actor="admin:root")
    redrives.drive(redrive.pk)
    assert 90 <= pool_of(job_type)["oldest_running_seconds"] < 100
    told = metrics.text().decode()
    assert 'berth_oldest_running_seconds{pool="video"} 9' in told
    assert f'berth_redrive_jobs{{outcome="replayed",redrive="{redrive.pk}"}} 1.0' in told
    assert "berth_redrives_running 0.0" in told, "it has seen all there was"


def test_depth_are_all_that_wait_and_delayed_those_that_wait_for_a_time(job_type: JobType) -> None:
    tenant = factories.make_tenant(max_running=1)
    for _ in range(3):
        factories.submit(tenant, job_type)
    factories.submit(tenant, job_type, **in_an_hour())
    pool = pool_of(job_type)
    assert (pool["depth"], pool["depth_exact"], pool["delayed"]) == (4, True, 1)
    assert pool["jobs"] == {"pending": 4, "assigned": 0, "processing": 0}


def test_who_waits_until_an_account_can_pay_is_not_among_the_delayed() -> None:
    pool = factories.make_tracked_pool(15, name="video")
    dear = factories.make_job_type(pool, price="20")
    for request in ({}, {}, in_an_hour()):
        factories.submit(factories.make_tenant(), dear, **request)
    transitions.assign(pool.pk)
    found = pool_of(dear)
    assert (found["depth"], found["unaffordable"], found["delayed"]) == (3, 2, 1)
    assert found["oldest_waiting_seconds"] == 0
    assert 'berth_unaffordable_jobs{pool="video"} 2.0' in metrics.text().decode()
    upstream_accounts.top_up(pool.pk, pool.accounts.get().pk, 50 * factories.MICRO, "invoice 3")
    turns.stand_in_line_again(affording.affordable_again())
    assert pool_of(dear)["unaffordable"] == 0


def test_lag_is_of_the_oldest_turn_and_waiting_of_the_oldest_that_could_run(job_type: JobType) -> None:
    tenant = factories.make_tenant(max_running=1)
    factories.submit(tenant, job_type)
    db.let_time_pass(100)
    factories.submit(tenant, job_type)
    transitions.assign(job_type.pool_id)
    db.let_time_pass(50)
    pool = pool_of(job_type)
    assert pool["lag_seconds"] == 0
    assert 50 <= pool["oldest_waiting_seconds"] < 60


def test_what_is_due_later_is_not_waiting_and_what_came_due_is(job_type: JobType) -> None:
    factories.submit(factories.make_tenant(), job_type, **in_an_hour())
    db.let_time_pass(3_000)
    assert pool_of(job_type)["oldest_waiting_seconds"] == 0
    db.let_time_pass(620)
    assert 20 <= pool_of(job_type)["oldest_waiting_seconds"] < 30


def test_a_long_line_hides_no_other(job_type: JobType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what is counted, every line is counted up to its part."""
    monkeypatch.setattr(occupancy, "MOST_COUNTED", 2)
    other = factories.make_job_type()
    for waits in (job_type, other):
        factories.submit_many(factories.make_tenant(max_running=1), waits, 4)
    db.let_time_pass(30)
    for pool in (pool_of(job_type), pool_of(other)):
        assert (pool["depth"], pool["depth_exact"]) == (2, False)  # the one with a turn, and one of its line
        assert 30 <= pool["oldest_waiting_seconds"] < 40


def test_dead_letters_are_failed_and_not_put_aside(job_type: JobType) -> None:
    failed = factories.at("failed", job_type)
    factories.at("completed", job_type)
    factories.at("failed", job_type)
    assert pool_of(job_type)["dead_letters"] == 2
    transitions.dismiss([failed.pk])
    assert pool_of(job_type)["dead_letters"] == 1


def test_a_drained_session_is_not_free() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=3))
    factories.at("processing", job_type)
    assert pool_of(job_type)["free_sessions"] == 2
    sessions.drain([occupancy.sessions([job_type.pool_id], 3)[2]["id"]], "by a test")
    assert pool_of(job_type)["free_sessions"] == 1


def test_utilisation_leaves_out_sessions_that_are_offline() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=4))
    factories.at("processing", job_type)
    assert pool_of(job_type)["utilisation"] == 0.25
    sessions.disable(Resource.objects.filter(state="available").values_list("id", flat=True), "by a test")
    pool = pool_of(job_type)
    assert (pool["utilisation"], pool["sessions"]) == (1.0, {"busy": 1, "offline": 3})


def test_an_unknown_outcome_counts_until_it_is_known(job_type: JobType) -> None:
    job = factories.at("assigned", job_type)
    flight = factories.dispatch(job)
    assert pool_of(job_type)["unknown"] == 0
    factories.learn(flight, factories.CUT)
    assert pool_of(job_type)["unknown"] == 1
    factories.learn(flight, factories.SUCCESS)
    transitions.finish([job.id])
    assert pool_of(job_type)["unknown"] == 0


def test_throughput_is_of_the_last_minute(job_type: JobType) -> None:
    other = factories.make_job_type()
    for _ in range(3):
        factories.at("completed", job_type)
    factories.at("processing", other)
    assert pool_of(job_type)["throughput_per_second"] == pytest.approx(3 / pace.RECENT_SECONDS)
    assert pool_of(other)["throughput_per_second"] == 0


def test_a_hand_off_is_from_the_end_of_a_session_to_the_next_call(job_type: JobType) -> None:
    tenant = factories.make_tenant()
    first, second = factories.submit(tenant, job_type), factories.submit(tenant, job_type)
    transitions.assign(job_type.pool_id)
    began = time.monotonic()
    factories.end(first, factories.SUCCESS)
    assert pool_of(job_type)["handoff_p50_ms"] is None
    db.let_time_pass(2)
    transitions.assign(job_type.pool_id)
    factories.dispatch(second)
    pool = pool_of(job_type)
    assert 2_000 <= pool["handoff_p50_ms"] == pool["handoff_p99_ms"] <= 2_000 + 1_000 * (time.monotonic() - began)


def test_a_cooldown_is_no_part_of_the_hand_off() -> None:
    job_type = factories.make_job_type(factories.make_pool(cooldown_ms=1_500))
    tenant = factories.make_tenant()
    first, second = factories.submit(tenant, job_type), factories.submit(tenant, job_type)
    transitions.assign(job_type.pool_id)
    began = time.monotonic()
    factories.end(first, factories.SUCCESS)
    db.let_time_pass(2)
    db.execute("UPDATE pool_resource SET state = 'available', available_at = NULL, asked_until = NULL")
    transitions.assign(job_type.pool_id)
    factories.dispatch(second)
    assert 500 <= pool_of(job_type)["handoff_p50_ms"] <= 500 + 1_000 * (time.monotonic() - began)


def test_a_job_that_came_later_was_not_handed_over(job_type: JobType) -> None:
    factories.at("completed", job_type)
    db.let_time_pass(2)
    factories.at("processing", job_type)
    assert pool_of(job_type)["handoff_p50_ms"] is None


def test_each_session_is_shown_in_order_with_the_job_it_has() -> None:
    job_type = factories.make_job_type(factories.make_pool(accounts=2, sessions=2))
    job = factories.at("processing", job_type)
    rows = occupancy.sessions([job_type.pool_id], 3)
    assert [(row["account"], row["number"]) for row in rows] == [("acct-001", 1), ("acct-001", 2), ("acct-002", 1)]
    assert [(row["state"], row["job_id"]) for row in rows] == [("busy", job.pk), *[("available", None)] * 2]
    assert set(rows[0]) == {
        "id", "pool_id", "account_id", "account", "number", "state", "accepting", "job_id", "available_at", "reason"
    }  # fmt: skip
    assert occupancy.sessions([], 3) == []


QUESTIONS = {
    "all lines": occupancy._WAITING.format(lines=occupancy._ALL_LINES),
    "timed": occupancy._TIMED,
    "standing": occupancy._STANDING,
    "dead letters": occupancy._DEAD,
    "open": occupancy._OPEN,
    "throughput": pace._THROUGHPUT,
    "hand-off": pace._HANDOFF,
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_no_question_reads_what_has_ended(question: str) -> None:
    """Each can be answered from an index whose part it reads is bounded. (On small tables the planner would not.)"""
    with transaction.atomic():
        db.execute("SET LOCAL enable_seqscan = off")
        plan = "\n".join(row[0] for row in db.rows(f"EXPLAIN {question}"))
    assert "Seq Scan on jobs_" not in plan, plan
    assert any(
        index in plan for index in ("job_line", "job_due", "job_standing", "job_dead_letter", "one_open", "pkey")
    )


def test_what_is_kept_is_counted_once(job_type: JobType) -> None:
    recent = occupancy.Recent(60)
    before = recent.rows()
    factories.submit(factories.make_tenant(), job_type)
    assert recent.rows() is before
    recent.forget()
    assert next(row for row in recent.rows() if row["id"] == job_type.pool_id)["depth"] == 1
