"""Each trace that Berth leaves when it touches a closed job is enough for the next audit to ask that job again."""

import pytest
from django.db import transaction

from broker_project.audit import audit_and_remember
from credits import ledger
from tests.db import execute
from tests.factories import MICRO, at

pytestmark = [pytest.mark.django_db, pytest.mark.tampers]
CHARGED = "P5.completed_job_is_charged_what_was_captured"
TRACES = {
    "move": "INSERT INTO jobs_jobmove (subject_id, from_state, to_state, cause, actor) SELECT id, '', '', '', '' FROM jobs_job",
    "attempt": """
        INSERT INTO jobs_attempt (job_id, resource_id, account_id, run, number, dispatch_key, fence, phase, verdict,
            error_class, error_code, error_message, reference, holder, sendings, ended_at, finished_at)
        SELECT job_id, resource_id, account_id, run, number + 1, 'again', fence + 1, phase, '', '', '', '', '', '', 1,
            ended_at, finished_at FROM jobs_attempt""",
    "evidence": "INSERT INTO jobs_evidence (attempt_id, kind, fence, content) SELECT id, 'late', 1, '{}' FROM jobs_attempt",
    "event": """
        INSERT INTO webhooks_event (tenant_id, type, job_id, job_run, job_version, body)
        SELECT tenant_id, 'job.told', id, 1, 1, '{}' FROM jobs_job""",
    "hold": """
        INSERT INTO credits_hold (account_id, job_id, run, attempt, amount, review_at)
        SELECT account_id, job_id, run, 1, 0, now() FROM credits_hold""",
    "an attempt that is not over": "UPDATE jobs_attempt SET ended_at = NULL, phase = 'calling'",
    "an attempt that is not finished": "UPDATE jobs_attempt SET finished_at = NULL",
    "a job that stands in its line": "UPDATE jobs_job SET state = 'pending', turn = NULL, finished_at = NULL",
    "a job that waits for a time": "UPDATE jobs_job SET state = 'pending', turn = NULL, due_at = now(), finished_at = NULL",
    "a job that runs": "UPDATE jobs_job SET state = 'processing', turn = 1, finished_at = NULL",
}


def test_without_a_trace_it_is_not_asked() -> None:
    _a_job_that_was_clean_then_tampered_with("SELECT 1")
    assert _found() == set()


def test_a_refund_is_a_trace() -> None:
    job = at("completed")
    assert audit_and_remember().moved
    ledger.refund(job.id, 1, MICRO, "ticket")
    _tamper("UPDATE jobs_job SET charged = charged + 1")
    assert _found() == {CHARGED}


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_a_trace_is_enough(trace: str) -> None:
    _a_job_that_was_clean_then_tampered_with(trace)
    assert _found() & {CHARGED, "P5.unfinished_job_is_held"}


def _a_job_that_was_clean_then_tampered_with(trace: str) -> None:
    at("completed")
    assert audit_and_remember().moved
    _tamper("UPDATE jobs_job SET charged = charged + 1")
    _tamper(trace)


def _tamper(sql: str) -> None:
    with transaction.atomic():
        execute("SET CONSTRAINTS ALL IMMEDIATE")
        execute("SET LOCAL session_replication_role = replica")
        assert execute(sql) > 0
        execute("SET LOCAL session_replication_role = origin")


def _found() -> set[str]:
    return {name for name, result in audit_and_remember(since_checkpoint=True).results.items() if result.count}
