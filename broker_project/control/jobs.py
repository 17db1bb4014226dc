"""What an operator may do to jobs: run them again, cancel them, put dead letters aside."""

from collections.abc import Mapping, Sequence
from typing import Any

from credits import ledger
from credits.errors import InsufficientCredits, NoWallet
from credits.pricing import short_text
from jobs import replays, transitions
from jobs.models import Job
from jobs.replays import NotReplayable, VersionChanged
from jobs.states import JOB
from statemachine.operations import Effect, Operation, Refused
from tenants.models import Tenant


class JobOperation(Operation):
    """A page speaks of one run of a job: what was meant for it does not happen to the next."""

    def mark(self, row: Job) -> str:
        return str(row.run)


class Replay(JobOperation):
    """FAILED, CANCELLED → PENDING, each job by itself: one that cannot be paid for does not stop the others."""

    name, title, icon = "replay", "Run again", "replay"
    says = (
        "A new run begins: held anew at the price of the first, at the end of its tenant's line. The history goes on."
    )

    def concerns(self, row: Job) -> bool:
        return row.state in JOB.arrows["replay"].sources

    def effects(self, rows: Sequence[Job], data: Mapping[str, Any]) -> list[Effect]:
        """Jobs of one tenant are paid for one after the other: the last may find nothing left."""
        left: dict[int, int] = {}
        return [self._effect(job, left) for job in rows]

    def perform(self, row: Job, data: Mapping[str, Any]) -> str:
        try:
            job = transitions.replay(row.pk, row.version)
        except InsufficientCredits as short:
            raise Refused(_too_little(short.required, row.tenant.name, short.available)) from short
        except (NotReplayable, VersionChanged, NoWallet) as why:
            raise Refused(str(why)) from why
        return f"run {job.run} has begun, {short_text(job.price)} credits are held"

    def _effect(self, job: Job, left: dict[int, int]) -> Effect:
        now = f"{job.state}{_code(job)}, run {job.run}"
        if why := replays.why_not(job):
            return Effect(job, now, "", why)
        if job.tenant.billing == Tenant.Billing.NONE:
            return Effect(job, now, f"pending, run {job.run + 1}; not billed")
        try:
            available = left.setdefault(job.tenant_id, ledger.balances(job.tenant_id).available)
        except NoWallet as why:
            return Effect(job, now, "", str(why))
        if job.price > available:
            return Effect(job, now, "", _too_little(job.price, job.tenant.name, available))
        left[job.tenant_id] -= job.price
        held = f"{short_text(job.price)} of {short_text(available)} credits are held"
        return Effect(job, now, f"pending, run {job.run + 1}; {held}")


class Cancel(JobOperation):
    """PENDING, ASSIGNED → CANCELLED; a processing job is asked to end."""

    name, title, icon = "cancel", "Cancel", "cancel"
    says = "What was not sent to the upstream is cancelled now and costs nothing; what runs is asked to end."

    def concerns(self, row: Job) -> bool:
        return row.state not in JOB.terminal

    def effects(self, rows: Sequence[Job], data: Mapping[str, Any]) -> list[Effect]:
        return [self._effect(job) for job in rows]

    def perform(self, row: Job, data: Mapping[str, Any]) -> str:
        asked = row.cancel_requested_at is not None
        if transitions.cancel(row.pk):
            return f"cancelled, {short_text(row.price)} credits are given back"
        row.refresh_from_db(fields=["state", "cancel_requested_at"])
        if row.state in JOB.terminal:
            raise Refused(f"it is {row.state} already")
        if asked:
            raise Refused("it was asked already")
        return "asked to end; what the upstream did decides"

    def _effect(self, job: Job) -> Effect:
        if job.state in JOB.terminal:
            return Effect(job, job.state, "", "it has ended")
        if job.state in JOB.arrows["cancel"].sources:
            return Effect(job, job.state, f"cancelled; {short_text(job.price)} credits are given back")
        if job.cancel_requested_at:
            return Effect(job, job.state, "", "it was asked already")
        return Effect(job, job.state, "asked to end; its session stays occupied until the upstream has ended")


class Dismiss(JobOperation):
    """A dead letter is put aside: it stays failed, and is not counted any more."""

    name, title, icon = "dismiss", "Dismiss", "archive"
    says = "The dead letter is put aside: it stays failed and is not counted any more. It can still run again."

    def concerns(self, row: Job) -> bool:
        return row.state == "failed" and row.dismissed_at is None

    def effects(self, rows: Sequence[Job], data: Mapping[str, Any]) -> list[Effect]:
        return [
            Effect(job, f"{job.state}{_code(job)}", "put aside", "" if self.concerns(job) else "it is no dead letter")
            for job in rows
        ]

    def perform(self, row: Job, data: Mapping[str, Any]) -> str:
        if not transitions.dismiss([row.pk]):
            raise Refused("it is no dead letter any more")
        return "put aside"


def _too_little(price: int, tenant: str, available: int) -> str:
    return f"it costs {short_text(price)} credits, {tenant} has {short_text(available)} available"


def _code(job: Job) -> str:
    if not job.error:
        return ""
    return f" ({job.error['code']}{': ' + job.error['message'][:80] if job.error.get('message') else ''})"
