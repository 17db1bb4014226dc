"""Job types, jobs, their attempts, the evidence about them, and each tenant's line in a pool."""

import pgtrigger
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.signals import job_moved
from jobs.states import ATTEMPT_PHASES, ENDED, INTENDED, JOB, PHASE_MOVES, VERDICTS
from pool.models import Pool, Resource, UpstreamAccount
from statemachine.models import Move
from statemachine.triggers import guard_triggers, history_triggers
from tenants.models import Tenant


class NextArrival(models.Func):
    """SQL: the next number of the sequence that orders jobs by arrival."""

    template = "nextval('jobs_arrival')"
    output_field = models.BigIntegerField()


class JobType(models.Model):
    """What can be asked for: its pool, price, payload and how the upstream is called. Times are in milliseconds."""

    name = models.CharField(max_length=100, unique=True)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="job_types")
    price = models.TextField(help_text="CEL, in credits: what is held at submit.")
    settle = models.TextField(blank=True, help_text="CEL, in credits: what is charged. Empty: all that was held.")
    overrun = models.CharField(max_length=10, default="absorb")
    cost = models.TextField(
        blank=True,
        db_default="",
        help_text="CEL, in the account's credits: what an attempt uses of it. Empty: the price.",
    )
    weight = models.TextField(default="1", help_text="For fairness: a number or CEL.")
    payload_schema = models.JSONField(default=dict, blank=True)
    max_payload_bytes = models.PositiveIntegerField(default=256_000)
    start_deadline_ms = models.BigIntegerField(null=True, blank=True)
    max_runtime_ms = models.BigIntegerField(help_text="The upstream certainly ends a session within this.")
    delivery = models.CharField(max_length=20, default="at_most_once")
    retry = models.JSONField(default=dict, blank=True, help_text="attempts, first_ms, factor, max_ms.")
    upstream = models.JSONField(default=dict, help_text="mode, submit, …: as in the configuration file.")
    accepting = models.BooleanField(default=True, help_text="Off: left the configuration file; new jobs are refused.")
    version = models.PositiveIntegerField(default=1, help_text="Grows when the declaration changes.")
    declared = models.JSONField(default=dict, blank=True, help_text="As written in the configuration file.")

    def __str__(self) -> str:
        return self.name


DEAD_LETTER = Q(state="failed", dismissed_at__isnull=True)


class Job(models.Model):
    """One request of a tenant. Money is in micro-credits; `turn` is its place among the jobs that may go next."""

    id = models.UUIDField(primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    type = models.ForeignKey(JobType, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    state = models.CharField(max_length=20, default=JOB.first)
    run = models.PositiveIntegerField(default=1, help_text="Grows with each replay; money and events are keyed by it.")
    version = models.BigIntegerField(default=1)
    payload = models.JSONField()
    metadata = models.JSONField(default=dict)

    priority = models.SmallIntegerField(default=0)
    arrival = models.BigIntegerField(db_default=NextArrival())
    weight = models.FloatField(default=1.0)
    turn = models.FloatField(null=True, help_text="Set by promotion; kept while the job runs.")
    due_at = models.DateTimeField(null=True, help_text="No turn before: run_at, or the end of a back-off.")
    unaffordable = models.BooleanField(
        db_default=False,
        help_text="No upstream account can pay for it now; looked at again when one can, or at due_at.",
    )
    start_deadline = models.DateTimeField(null=True)

    attempts = models.PositiveIntegerField(default=0, help_text="Attempts opened, over all runs.")
    tries = models.PositiveIntegerField(default=0, help_text="Attempts that count against max_attempts, in this run.")
    crashes = models.PositiveIntegerField(default=0, help_text="Workers lost under it, in this run.")
    max_attempts = models.PositiveIntegerField(default=3)
    cancel_requested_at = models.DateTimeField(null=True)

    price = models.BigIntegerField(help_text="Held at submit.")
    price_version = models.PositiveIntegerField(default=1, help_text="Version of the type it was priced by.")
    cost = models.BigIntegerField(db_default=0, help_text="What an attempt is expected to use of an upstream account.")
    settle = models.TextField(blank=True, help_text="The type's settle expression as it was at submit.")
    overrun = models.CharField(max_length=10, default="absorb")
    charged = models.BigIntegerField(default=0)
    flagged = models.TextField(blank=True, help_text="What an operator should look at, e.g. absurd usage.")

    result = models.JSONField(null=True)
    error = models.JSONField(null=True)
    idempotency_key = models.CharField(max_length=128)
    fingerprint = models.BinaryField(max_length=32)
    created_at = models.DateTimeField(db_default=Now())
    queued_at = models.DateTimeField(
        db_default=Now(), help_text="When this run was accepted: at submit, or by a replay."
    )
    assigned_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    dismissed_at = models.DateTimeField(null=True, help_text="When an operator put this dead letter aside.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "idempotency_key"], name="one_job_per_key"),
            models.CheckConstraint(condition=Q(price__gte=0) & Q(charged__gte=0), name="job_money_not_negative"),
            models.CheckConstraint(
                condition=(Q(state__in=JOB.terminal) & Q(finished_at__isnull=False))
                | (~Q(state__in=JOB.terminal) & Q(finished_at__isnull=True)),
                name="job_finished_iff_terminal",
            ),
        ]
        indexes = [
            # The claim: only jobs that could run now stand in it.
            models.Index(
                fields=["pool", "turn", "id"], condition=Q(state="pending", turn__isnull=False), name="job_claim"
            ),
            # Who comes next within a tenant's line.
            models.Index(
                fields=["tenant", "pool", "-priority", "arrival"],
                condition=Q(state="pending", turn__isnull=True, due_at__isnull=True),
                name="job_line",
            ),
            # What counts against window and max_running.
            models.Index(
                fields=["tenant", "pool"],
                condition=Q(turn__isnull=False, state__in=["pending", "assigned", "processing"]),
                name="job_standing",
            ),
            models.Index(fields=["due_at"], condition=Q(state="pending", due_at__isnull=False), name="job_due"),
            models.Index(
                fields=["pool", "cost"], condition=Q(state="pending", unaffordable=True), name="job_unaffordable"
            ),
            models.Index(
                fields=["start_deadline"],
                condition=Q(state="pending", start_deadline__isnull=False),
                name="job_deadline",
            ),
            models.Index(fields=["tenant", "-id"], name="job_by_tenant"),
            models.Index(
                fields=["pool", "finished_at", "id"],
                condition=DEAD_LETTER,
                name="job_dead_letter",
            ),
        ]
        triggers = guard_triggers(JOB, "jobs_jobmove")

    def __str__(self) -> str:
        return str(self.id)


class JobMove(Move):
    """The history of the jobs."""

    subject_id = models.UUIDField(db_index=True)

    class Meta:
        verbose_name, verbose_name_plural = "move of a job", "moves of jobs"
        triggers = history_triggers()


class Attempt(models.Model):
    """One try of a job on one session, with its lease. An open attempt (`ended_at` empty) occupies its resource."""

    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="tries_made")
    resource = models.ForeignKey(Resource, on_delete=models.PROTECT, related_name="attempts", db_index=False)
    account = models.ForeignKey(UpstreamAccount, on_delete=models.PROTECT, related_name="+", db_index=False)
    run = models.PositiveIntegerField(default=1)
    number = models.PositiveIntegerField()
    dispatch_key = models.CharField(max_length=80, unique=True)
    fence = models.BigIntegerField()
    phase = models.CharField(max_length=10, default=INTENDED, choices=list(ATTEMPT_PHASES.items()))
    verdict = models.CharField(max_length=20, blank=True, choices=list(VERDICTS.items()))
    error_class = models.CharField(max_length=20, blank=True)
    error_code = models.CharField(max_length=50, blank=True)
    error_message = models.TextField(blank=True)
    retry_after_ms = models.BigIntegerField(null=True)
    units = models.FloatField(null=True)
    reported_cost = models.BigIntegerField(null=True, help_text="What the upstream says it took of the account.")
    usage_problem = models.TextField(blank=True, db_default="", help_text="Why its usage could not be believed.")
    result = models.JSONField(null=True)
    links = models.JSONField(null=True, help_text="Name → link of its result's files that are yet to be fetched.")
    fetch_at = models.DateTimeField(null=True, help_text="When they are fetched, or taken up by another; empty: none.")
    fetch_tries = models.PositiveSmallIntegerField(db_default=0)
    reference = models.TextField(blank=True)
    holder = models.TextField(blank=True, help_text="The worker that calls.")
    lease_until = models.DateTimeField(null=True)
    sendings = models.PositiveIntegerField(default=0, help_text="How often the same dispatch key was sent.")
    called_as = models.CharField(
        max_length=32, blank=True, db_default="", help_text="Digest of what its call was made of."
    )
    over_ms = models.BigIntegerField(
        null=True,
        help_text="So long after its intent its session is certainly over: a lease, and max_runtime as it was.",
    )
    look_at = models.DateTimeField(null=True, help_text="When it is asked for, or a failed finish is looked at again.")
    asked_at = models.DateTimeField(null=True, help_text="When its outcome was last asked for, whatever came of it.")
    asks_failed = models.PositiveIntegerField(db_default=0, help_text="Askings in a row that told nothing.")
    progress = models.FloatField(null=True, help_text="0 to 1, as the upstream says.")
    told_at = models.DateTimeField(null=True, help_text="When the upstream called back to say that there is news.")
    cancel_at = models.DateTimeField(null=True, help_text="When the upstream is asked to cancel it.")
    cancels = models.PositiveIntegerField(db_default=0, help_text="How often it was asked to.")
    opened_at = models.DateTimeField(db_default=Now())
    called_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True, help_text="When its job drew the consequences.")

    class Meta:
        constraints = [
            # One session, one job: the database itself refuses a second open attempt on a resource.
            models.UniqueConstraint(
                fields=["resource"], condition=Q(ended_at__isnull=True), name="one_open_attempt_per_resource"
            ),
            models.UniqueConstraint(
                fields=["job"], condition=Q(ended_at__isnull=True), name="one_open_attempt_per_job"
            ),
            models.UniqueConstraint(fields=["job", "number"], name="attempt_number_once_per_job"),
            models.CheckConstraint(
                condition=(Q(phase=ENDED) & Q(ended_at__isnull=False)) | (~Q(phase=ENDED) & Q(ended_at__isnull=True)),
                name="attempt_ended_has_a_time",
            ),
        ]
        indexes = [
            models.Index(
                fields=["id"], condition=Q(ended_at__isnull=False, finished_at__isnull=True), name="attempt_unfinished"
            ),
            models.Index(fields=["fetch_at"], condition=Q(fetch_at__isnull=False), name="attempt_to_fetch"),
            models.Index(fields=["reference"], condition=~Q(reference=""), name="attempt_by_reference"),
        ]
        triggers = [pgtrigger.FSM(name="phases_only_grow", field="phase", transitions=PHASE_MOVES)]

    def __str__(self) -> str:
        return self.dispatch_key


class Evidence(models.Model):
    """What was learned about an attempt, from whomever and however late. Appended, never fenced."""

    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="evidence")
    kind = models.CharField(max_length=20)
    fence = models.BigIntegerField(help_text="The fence of whoever learned it.")
    content = models.JSONField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        triggers = history_triggers()

    def __str__(self) -> str:
        return f"{self.attempt_id} {self.kind}"


class LateCompletion(models.Model):
    """A success that surfaced when its attempt had ended, or was being sent, under another name: once per run.

    Written with the evidence of it; what it means for the money is decided when the run has ended.
    """

    # No foreign keys in the database: each would be one more trigger to ask for every move of a job and an attempt.
    job = models.ForeignKey(Job, models.PROTECT, related_name="+", db_index=False, db_constraint=False)
    run = models.PositiveIntegerField()
    attempt = models.ForeignKey(Attempt, models.PROTECT, related_name="+", db_index=False, db_constraint=False)
    units = models.FloatField(null=True)
    reference = models.TextField(blank=True, help_text="The upstream's own, of this answer.")
    at = models.DateTimeField(db_default=Now())
    look_at = models.DateTimeField(db_default=Now(), help_text="When it is decided, or asked again.")
    decided_at = models.DateTimeField(null=True)
    booked = models.BigIntegerField(default=0, help_text="From loss to revenue, in micro-credits.")
    why = models.TextField(blank=True, help_text="Why nothing was booked.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "run"], name="one_late_completion_per_run")]
        indexes = [
            models.Index(fields=["look_at"], condition=Q(decided_at__isnull=True), name="latecompletion_undecided")
        ]

    def __str__(self) -> str:
        return f"late completion of job {self.job_id} run {self.run}"


class Line(models.Model):
    """A tenant's line in a pool: the finish tag of its last turn (start-time fair queueing)."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+", db_index=False)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    finish_tag = models.FloatField(default=0.0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "pool"], name="one_line_per_tenant_and_pool")]

    def __str__(self) -> str:
        return f"{self.tenant_id} in {self.pool_id}"


JOB.bind(Job, job_moved, carry=["pool_id", "tenant_id", "turn", "due_at"])
