"""What an audit of less than all asks of jobs, their attempts, moves and events (see `credits/touched.py`)."""

from django.db.models import BinaryField, JSONField, Model

from jobs.audit import TERMINAL_EVENTS
from jobs.models import Attempt, Job
from statemachine.touched import Figure, Scope, Source, Table
from webhooks.models import Event


def _columns(model: type[Model]) -> str:
    """All but what tenants and upstreams wrote: no rule reads it, and it may be large."""
    fields = [field for field in model._meta.concrete_fields if not isinstance(field, JSONField | BinaryField)]
    return ", ".join(f'k."{field.column}"' for field in fields)


JOB, ATTEMPT, EVENT = (f"SELECT {_columns(model)} FROM {model._meta.db_table} k" for model in (Job, Attempt, Event))
MOVE = "SELECT k.* FROM jobs_jobmove k"
IDS = "(SELECT job_id FROM touched_job_id)"

TABLES = {
    "touched_job_id": Table("SELECT id AS job_id FROM jobs_job", key="job_id"),
    "touched_job": Table(JOB),
    "touched_attempt": Table(ATTEMPT),
    "touched_jobmove": Table(MOVE),
    "touched_event": Table(EVENT),
}
# Each part of the first is a partial index; what has not ended stands in one of them.
SINCE = [
    Source(
        "touched_job_id",
        """
        SELECT id FROM jobs_job WHERE turn IS NOT NULL AND state IN ('pending', 'assigned', 'processing')
        UNION SELECT id FROM jobs_job WHERE state = 'pending' AND turn IS NULL AND due_at IS NULL
        UNION SELECT id FROM jobs_job WHERE state = 'pending' AND due_at IS NOT NULL
        UNION SELECT subject_id FROM jobs_jobmove WHERE id > %(jobs_jobmove)s
        UNION SELECT job_id FROM jobs_attempt WHERE id > %(jobs_attempt)s
        UNION SELECT job_id FROM jobs_attempt WHERE ended_at IS NULL
        UNION SELECT job_id FROM jobs_attempt WHERE ended_at IS NOT NULL AND finished_at IS NULL
        UNION SELECT a.job_id FROM jobs_evidence e JOIN jobs_attempt a ON a.id = e.attempt_id
              WHERE e.id > %(jobs_evidence)s
        UNION SELECT job_id FROM webhooks_event WHERE id > %(webhooks_event)s AND job_id IS NOT NULL
        """,
    ),
    Source("touched_event", f"{EVENT} WHERE k.id > %(webhooks_event)s"),
]
OF_TENANT = [
    Source("touched_job_id", "SELECT id FROM jobs_job WHERE tenant_id = %(tenant)s"),
    Source("touched_event", f"{EVENT} WHERE k.tenant_id = %(tenant)s"),
]
BELONGING = [
    Source("touched_job", f"{JOB} WHERE k.id IN {IDS}"),
    Source(
        "touched_job",
        f"{JOB} WHERE (k.tenant_id, k.idempotency_key) IN (SELECT tenant_id, idempotency_key FROM touched_job)",
    ),
    Source("touched_attempt", f"{ATTEMPT} WHERE k.job_id IN {IDS}"),
    Source("touched_attempt", f"{ATTEMPT} WHERE k.dispatch_key IN (SELECT dispatch_key FROM touched_attempt)"),
    Source("touched_jobmove", f"{MOVE} WHERE k.subject_id IN {IDS}"),
    Source("touched_event", f"{EVENT} WHERE k.job_id IN {IDS} AND k.type IN {TERMINAL_EVENTS}"),
]

JOBS = {"jobs_job": "SELECT * FROM touched_job"}
ATTEMPTS = {"jobs_attempt": "SELECT * FROM touched_attempt"}
MOVES = {"jobs_jobmove": "SELECT * FROM touched_jobmove"}
EVENTS = {"webhooks_event": "SELECT * FROM touched_event"}
HOLDS = {"credits_hold": "SELECT * FROM touched_hold"}
LATE = {
    "jobs_latecompletion": f"SELECT * FROM jobs_latecompletion WHERE job_id IN {IDS}",
    "credits_transfer": "SELECT * FROM touched_transfer",
}
# The attempt of each session that the checkpoint knew as its last, and those after it.
SINCE_LAST = {
    "jobs_attempt": """
        SELECT id, resource_id, fence FROM touched_attempt
        WHERE id > (SELECT figure FROM remembered WHERE name = 'jobs_attempt')
        UNION ALL SELECT a.id, a.resource_id, a.fence FROM remembered r JOIN jobs_attempt a ON a.id = r.figure::bigint
        WHERE r.name = 'last_attempt'
    """
}

# Rule → what stands for which table. A rule that is not here is asked in full.
SCOPES: dict[str, Scope] = {
    "P2.attempt_counts_against_its_sessions_account": Scope(ATTEMPTS),
    "P2.quarantined_pool_begins_nothing": Scope(ATTEMPTS),
    "P9.fences_of_a_session_grow": Scope(SINCE_LAST, of_tenant=False),
    "P3.assigned_has_an_intended_attempt": Scope(JOBS | ATTEMPTS),
    "P3.processing_has_an_attempt_to_draw_from": Scope(JOBS | ATTEMPTS),
    "P3.completed_job_has_its_result_file": Scope({"jobs_job": f"SELECT * FROM jobs_job WHERE id IN {IDS}"}),
    "P3.waiting_or_ended_job_has_no_attempt_left": Scope(JOBS | ATTEMPTS),
    "P6.job_with_a_turn_is_not_waiting_for_a_time": Scope(JOBS),
    "P6.running_job_has_its_turn": Scope(JOBS),
    "P6.job_runs_in_its_pool": Scope(JOBS | ATTEMPTS),
    "P4.idempotency_key_once": Scope(JOBS),
    "P4.dispatch_key_once": Scope(ATTEMPTS),
    "P4.attempts_are_numbered_without_gaps": Scope(JOBS | ATTEMPTS),
    "P4.one_success_per_run": Scope(ATTEMPTS),
    "P4.completed_job_has_its_success": Scope(JOBS | ATTEMPTS),
    "P5.late_completion_is_booked_as_decided": Scope(LATE | HOLDS),
    "P5.open_hold_has_an_unfinished_job": Scope(HOLDS | JOBS),
    "P5.unfinished_job_is_held": Scope(JOBS | HOLDS),
    "P5.completed_job_is_charged_what_was_captured": Scope(JOBS | HOLDS),
    "P5.earlier_run_costs_nothing": Scope(HOLDS | JOBS),
    "P5.unsuccessful_job_is_not_charged": Scope(JOBS | HOLDS),
    "P5.open_attempt_alone_holds_of_its_account": Scope(HOLDS | ATTEMPTS),
    "P5.executed_attempt_is_charged_to_its_account": Scope(HOLDS | ATTEMPTS),
    "P5.reported_cost_is_charged": Scope(HOLDS | ATTEMPTS),
    "P5.account_hold_is_of_the_attempts_account": Scope(HOLDS | ATTEMPTS),
    "P7.unaffordable_job_stands_in_no_line": Scope(JOBS),
    "P11.hold_is_of_the_jobs_tenant": Scope(HOLDS | JOBS),
    "P11.event_is_of_the_jobs_tenant": Scope(EVENTS | JOBS),
    "P12.ended_job_has_one_event_of_its_end": Scope(JOBS | EVENTS),
    "P12.unfinished_job_has_no_event_of_its_end": Scope(EVENTS | JOBS),
    "P8.each_run_after_the_first_is_a_replay": Scope(JOBS | MOVES),
    "P8.job_moves_lead_to_its_state": Scope(JOBS | MOVES),
    "P8.job_moves_are_legal": Scope(MOVES),
    "P4.job_is_redriven_once": Scope(MOVES),
}

# What a checkpoint remembers, as of its last final attempt.
FIGURES = {
    "last_attempt": Figure(
        """
        SELECT resource_id AS subject_id, max(id) AS figure FROM jobs_attempt WHERE id <= {jobs_attempt}
        GROUP BY resource_id
        """,
        Scope(SINCE_LAST),
    ),
}
