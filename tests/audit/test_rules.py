"""Each rule of the audit is quiet over what the verbs make, and finds the breach it is there for.

The breaches are made by raw SQL with triggers and foreign keys off, as a bug or a stray UPDATE could once a guard is gone.
"""

from collections.abc import Callable
from functools import partial

import pytest
from django.db import transaction

from broker_project import checkpoint
from broker_project.audit import RULES, Result, audit, audit_and_remember
from broker_project.touched import SCOPES, Part
from credits.audit import RULES as OF_CREDITS
from jobs import transitions
from jobs.states import JOB
from tests.db import execute
from tests.factories import at, make_job_type, make_pool, make_tenant, make_tracked_pool, submit

pytestmark = [pytest.mark.django_db, pytest.mark.tampers]

Ask = Callable[..., dict[str, Result]]
OPEN = "(SELECT id FROM jobs_attempt WHERE ended_at IS NULL ORDER BY id LIMIT 1)"
JOB_IN = "(SELECT id FROM jobs_job WHERE state = '{}' ORDER BY id LIMIT 1)"
ASSIGNED, PROCESSING, COMPLETED, FAILED, PENDING = (
    JOB_IN.format(state) for state in ("assigned", "processing", "completed", "failed", "pending")
)
COPY_ATTEMPT = """
    INSERT INTO jobs_attempt (job_id, resource_id, account_id, run, number, dispatch_key, fence, phase, verdict,
        error_class, error_code, error_message, reference, holder, sendings, lease_until, ended_at, finished_at)
    SELECT job_id, resource_id, account_id, run, number + {step}, {key}, fence + 1, phase, verdict, '', '', '', '', '',
        sendings, lease_until, ended_at, finished_at FROM jobs_attempt WHERE {where}"""

FILE = """
    INSERT INTO files_file (id, tenant_id, kind, name, content_type, size, sha256, place, expires_at, stored_at, leaving_at)
    VALUES ('00000000-0000-7000-8000-000000000001', {tenant}, 'input', '', 'a/b', 5, 'f', 'x', now(), now(), {leaving});
    INSERT INTO files_reference (file_id, job_id) VALUES ('00000000-0000-7000-8000-000000000001', {job})"""

# Rule → what breaks it.
BREACHES = {
    "P1.one_open_attempt_per_resource": COPY_ATTEMPT.format(step=1, key="'again'", where=f"id = {OPEN}"),
    "P1.one_open_attempt_per_job": COPY_ATTEMPT.format(step=1, key="'again'", where=f"id = {OPEN}"),
    "P1.session_is_given_to_the_attempts_job": f"""
        UPDATE pool_resource SET job_id = {COMPLETED} WHERE id = (SELECT resource_id FROM jobs_attempt WHERE id = {OPEN})
    """,
    "P1.session_in_use_has_an_open_attempt": "UPDATE pool_resource SET state = 'busy' WHERE state = 'available'",
    "P2.session_is_in_use_until_the_attempt_ends": "UPDATE pool_resource SET state = 'available' WHERE state = 'busy'",
    "P2.session_in_use_knows_its_job": "UPDATE pool_resource SET job_id = NULL WHERE state = 'busy'",
    "P2.attempt_counts_against_its_sessions_account": f"""
        UPDATE jobs_attempt SET account_id = (SELECT max(id) FROM pool_upstreamaccount) WHERE id = {OPEN}
    """,
    "P2.open_attempts_within_the_accounts_sessions": """
        UPDATE jobs_attempt SET account_id = (SELECT max(id) FROM pool_upstreamaccount)
    """,
    "P2.sessions_offered_within_the_account": "UPDATE pool_upstreamaccount SET sessions = 0",
    "P2.session_stands_in_its_accounts_pool": "UPDATE pool_resource SET pool_id = (SELECT max(id) FROM pool_pool)",
    "P2.disabled_session_is_out_of_use": "UPDATE pool_resource SET disabled = true WHERE state = 'available'",
    "P2.resting_session_is_given_to_nobody": """
        UPDATE pool_resource SET asked_until = now() + interval '1 hour' WHERE state = 'available'
    """,
    "P7.rested_session_comes_back": """
        UPDATE pool_resource SET state = 'cooldown', available_at = now() - interval '61 minutes'
        WHERE state = 'available'""",
    "P2.refused_session_is_to_be_offline": "UPDATE pool_resource SET refused = true WHERE state = 'available'",
    "P2.quarantined_pool_begins_nothing": f"""
        UPDATE pool_pool SET quarantined_at = now() - interval '1 hour', quarantined_until = now() + interval '1 hour';
        UPDATE jobs_attempt SET opened_at = now() WHERE id = {OPEN}
    """,
    "P3.assigned_has_an_intended_attempt": f"UPDATE jobs_attempt SET phase = 'calling' WHERE job_id = {ASSIGNED}",
    "P3.processing_has_an_attempt_to_draw_from": f"""
        UPDATE jobs_attempt SET phase = 'ended', ended_at = now(), finished_at = now() WHERE job_id = {PROCESSING}
    """,
    "P3.waiting_or_ended_job_has_no_attempt_left": f"""
        UPDATE jobs_attempt SET finished_at = NULL WHERE job_id = {COMPLETED}
    """,
    "P3.what_is_due_is_asked_for": f"""
        UPDATE jobs_attempt SET lease_until = NULL, look_at = now() - interval '2 days' WHERE id = {OPEN}""",
    "P3.leased_attempt_is_not_asked_for": f"UPDATE jobs_attempt SET look_at = now() WHERE id = {OPEN}",
    "P3.accepted_attempt_is_asked_not_leased": f"UPDATE jobs_attempt SET phase = 'accepted' WHERE id = {OPEN}",
    "P3.open_attempt_is_watched": f"UPDATE jobs_attempt SET lease_until = NULL WHERE id = {OPEN}",
    "P3.lease_that_ended_is_noticed": f"""
        UPDATE jobs_attempt SET lease_until = now() - interval '61 minutes' WHERE id = {OPEN}""",
    "P3.work_ends_by_its_max_runtime": f"""
        UPDATE jobs_attempt SET called_at = now() - interval '122 minutes', verdict = 'unknown', lease_until = NULL,
               look_at = now() + interval '1 hour' WHERE job_id = {PROCESSING}""",
    "P4.job_is_redriven_once": f"""
        INSERT INTO jobs_jobmove (subject_id, from_state, to_state, cause, actor)
        SELECT {FAILED}, 'failed', 'pending', 'replay', 'redrive:7' FROM generate_series(1, 2)""",
    "P4.idempotency_key_once": "UPDATE jobs_job SET tenant_id = (SELECT min(id) FROM tenants_tenant), idempotency_key = 'k'",
    "P4.suspected_job_waits_in_a_closed_pool": """
        INSERT INTO jobs_suspicion (job_id, pool_id, asks_failed, decided)
        SELECT id, pool_id, 0, '' FROM jobs_job WHERE state = 'pending' LIMIT 1
    """,
    "P4.dispatch_key_once": "UPDATE jobs_attempt SET dispatch_key = 'same'",
    "P4.attempts_are_numbered_without_gaps": "UPDATE jobs_attempt SET number = number + 1",
    "P4.work_that_was_taken_was_executed": """
        UPDATE jobs_attempt SET verdict = 'not_executed', told_at = now() WHERE ended_at IS NOT NULL""",
    "P4.one_success_per_run": COPY_ATTEMPT.format(step=1, key="'again'", where="verdict = 'succeeded'"),
    "P4.completed_job_has_its_success": f"UPDATE jobs_attempt SET verdict = 'unknown' WHERE job_id = {COMPLETED}",
    "P5.open_hold_has_an_unfinished_job": f"""
        UPDATE credits_hold SET status = 'open', captured = NULL, resolved_at = NULL WHERE job_id = {COMPLETED}
    """,
    "P5.unfinished_job_is_held": f"""
        UPDATE credits_hold SET status = 'released', resolved_at = now() WHERE job_id = {PENDING}
    """,
    "P5.completed_job_is_charged_what_was_captured": "UPDATE jobs_job SET charged = charged + 1",
    "P5.unsuccessful_job_is_not_charged": f"""
        UPDATE credits_hold SET status = 'captured', captured = 0 WHERE job_id = {FAILED}
    """,
    "P5.open_attempt_alone_holds_of_its_account": f"""
        UPDATE credits_hold SET status = 'open', captured = NULL, resolved_at = NULL
        WHERE attempt > 0 AND job_id = {COMPLETED}
    """,
    "P5.executed_attempt_is_charged_to_its_account": f"""
        UPDATE credits_hold SET status = 'released', captured = NULL WHERE attempt > 0 AND job_id = {COMPLETED}
    """,
    "P5.reported_cost_is_charged": f"""
        UPDATE credits_hold SET attempt = attempt + 100 WHERE attempt > 0 AND job_id = {COMPLETED};
        UPDATE jobs_attempt SET reported_cost = 1 WHERE job_id = {COMPLETED}
    """,
    "P5.account_hold_is_of_the_attempts_account": """
        UPDATE credits_hold SET account_id = (SELECT min(id) FROM credits_account WHERE kind = 'upstream') WHERE attempt > 0
    """,
    "P7.unaffordable_job_stands_in_no_line": "UPDATE jobs_job SET turn = 1 WHERE unaffordable",
    "P7.open_breaker_is_probed": """
        INSERT INTO pool_accounthealth (account_id, failures, level, opened_at, open_until, why)
        SELECT account_id, 0, 1, now() - interval '9 minutes', now() - interval '8 minutes', ''
        FROM pool_resource WHERE state = 'available' LIMIT 1
    """,
    "P5.late_completion_is_booked_as_decided": f"""
        INSERT INTO jobs_latecompletion (job_id, run, attempt_id, reference, decided_at, booked, why)
        SELECT job_id, run, id, '', now(), 5, '' FROM jobs_attempt WHERE job_id = {FAILED}
    """,
    "P5.late_completion_is_decided": f"""
        INSERT INTO jobs_latecompletion (job_id, run, attempt_id, reference, look_at, booked, why)
        SELECT job_id, run, id, '', now() - interval '61 minutes', 0, '' FROM jobs_attempt WHERE job_id = {FAILED}
    """,
    "P3.unfinished_job_has_its_files": FILE.format(
        tenant=f"(SELECT tenant_id FROM jobs_job WHERE id = {PENDING})", leaving="now()", job=PENDING
    ),
    "P3.completed_job_has_its_result_file": f"""
        UPDATE jobs_job SET result = '{{"file": "x", "content_type": "a/b", "size": 5, "sha256": "f"}}' WHERE id = {COMPLETED}
    """,
    "P7.file_bytes_are_counted": """
        INSERT INTO files_usage (tenant_id, input_bytes, result_bytes) SELECT min(id), 5, 0 FROM tenants_tenant
    """,
    "P11.file_is_of_the_jobs_tenant": FILE.format(
        tenant=f"(SELECT max(id) FROM tenants_tenant WHERE id <> (SELECT tenant_id FROM jobs_job WHERE id = {PENDING}))",
        leaving="NULL",
        job=PENDING,
    ),
    "P5.earlier_run_costs_nothing": f"UPDATE jobs_job SET run = run + 1 WHERE id = {COMPLETED}",
    "P6.job_runs_in_its_pool": "UPDATE jobs_job SET pool_id = (SELECT max(id) FROM pool_pool)",
    "P6.job_with_a_turn_is_not_waiting_for_a_time": "UPDATE jobs_job SET due_at = now() WHERE turn IS NOT NULL",
    "P6.running_job_has_its_turn": "UPDATE jobs_job SET turn = NULL",
    "P8.each_run_after_the_first_is_a_replay": "UPDATE jobs_job SET run = run + 1",
    "P8.job_moves_lead_to_its_state": "DELETE FROM jobs_jobmove WHERE to_state = 'assigned'",
    "P8.job_moves_are_legal": "UPDATE jobs_jobmove SET to_state = 'completed' WHERE to_state = 'assigned'",
    "P8.resource_moves_lead_to_its_state": "DELETE FROM pool_resourcemove",
    "P8.resource_moves_are_legal": "UPDATE pool_resourcemove SET to_state = 'busy' WHERE to_state = 'reserved'",
    "P9.fences_of_a_session_grow": """
        UPDATE jobs_attempt SET fence = 1, resource_id = (SELECT max(id) FROM pool_resource)
    """,
    "P9.open_attempt_has_its_sessions_fence": f"UPDATE jobs_attempt SET fence = fence + 1 WHERE id = {OPEN}",
    "P11.event_is_of_the_jobs_tenant": "UPDATE webhooks_event SET tenant_id = tenant_id + 1",
    "P11.hold_is_of_the_jobs_tenant": """
        UPDATE credits_hold SET account_id = (SELECT min(id) FROM credits_account WHERE kind = 'revenue')
    """,
    "P12.ended_job_has_one_event_of_its_end": "DELETE FROM webhooks_event",
    "P12.unfinished_job_has_no_event_of_its_end": f"UPDATE webhooks_event SET job_id = {PENDING} WHERE job_id = {FAILED}",
}
# The database itself refuses some of this; those guards are taken away first.
GUARDS = """
    DROP INDEX one_open_attempt_per_resource; DROP INDEX one_open_attempt_per_job;
    DROP INDEX one_terminal_event_per_run;
    ALTER TABLE jobs_job DROP CONSTRAINT one_job_per_key;
    ALTER TABLE jobs_attempt DROP CONSTRAINT attempt_number_once_per_job;
    ALTER TABLE jobs_attempt DROP CONSTRAINT jobs_attempt_dispatch_key_key;
    ALTER TABLE credits_hold DROP CONSTRAINT hold_open_until_resolved;
    ALTER TABLE credits_hold DROP CONSTRAINT hold_captured_has_amount;
    ALTER TABLE credits_hold DROP CONSTRAINT hold_once_per_job_run_attempt"""


@pytest.fixture(params=["all", "since the checkpoint"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """The audit in each of its forms; the checkpoint is older than the world."""
    if request.param == "all":
        return audit
    assert audit_and_remember().moved
    found = checkpoint.load()
    assert found is not None
    return partial(audit, part=Part(found.marks))


@pytest.fixture
def _a_world_with_a_job_in_every_state(ask: object) -> None:
    """One tenant and one pool of one session each, so that jobs of different states do not meet; one pool over."""
    for state in (*JOB.states, "backing_off", "cancelling"):
        at(state, make_job_type(make_tracked_pool(100), idempotent=True), make_tenant())
    transitions.assign(submit(make_tenant(), make_job_type(make_tracked_pool(1))).pool_id)
    make_pool()


def test_every_rule_is_put_on_trial() -> None:
    assert set(BREACHES) | set(OF_CREDITS) == set(RULES)
    assert set(SCOPES) <= set(RULES)


@pytest.mark.usefixtures("_a_world_with_a_job_in_every_state")
def test_a_world_made_by_the_verbs_has_no_breach(ask: Ask) -> None:
    assert {name: result.rows for name, result in ask().items() if result.count} == {}


@pytest.mark.parametrize(
    "breach",
    [
        f"UPDATE jobs_job SET state = 'assigned' WHERE id = {PENDING}",
        f"DELETE FROM jobs_jobmove WHERE to_state = 'pending' AND subject_id = {PENDING}",
        "DELETE FROM jobs_jobmove WHERE to_state = 'completed'",
        "UPDATE jobs_jobmove SET from_state = 'assigned' WHERE from_state = 'pending'",
        f"DELETE FROM jobs_job WHERE id = {PENDING}",
    ],
)
@pytest.mark.usefixtures("_a_world_with_a_job_in_every_state")
def test_a_history_that_does_not_lead_to_the_state_is_found(ask: Ask, breach: str) -> None:
    execute("SET CONSTRAINTS ALL IMMEDIATE")
    execute("SET LOCAL session_replication_role = replica")
    assert execute(breach) > 0
    rule = "P8.job_moves_lead_to_its_state"
    (row, *_) = ask({rule: RULES[rule]})[rule].rows
    assert row["found"] != row["expected"]


@pytest.mark.usefixtures("_a_world_with_a_job_in_every_state")
def test_each_breach_is_found(ask: Ask, subtests: pytest.Subtests) -> None:
    for rule, breach in BREACHES.items():
        with subtests.test(rule), transaction.atomic():
            execute("SET CONSTRAINTS ALL IMMEDIATE")
            execute("SET LOCAL session_replication_role = replica")
            execute(GUARDS)
            assert execute(breach) > 0
            found = ask({rule: RULES[rule]})[rule]
            transaction.set_rollback(True)
            assert found.count > 0
            assert all(row["found"] != row["expected"] for row in found.rows)


def test_rows_are_bounded_and_all_are_counted() -> None:
    result = audit({"many": "SELECT n AS subject, n AS found, 0 AS expected FROM generate_series(1, 50) n"})["many"]
    assert (result.count, len(result.rows)) == (50, 20)
