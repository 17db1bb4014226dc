"""Giving a later time to a row whose step failed, so that it is tried again and meanwhile holds up nobody."""

from uuid import UUID

from statemachine.sql import fetch

_LATER = "clock_timestamp() + make_interval(secs => %s)"


def finish(job_id: UUID, seconds: int) -> None:
    """Its ended attempt is finished later."""
    fetch(
        f"UPDATE jobs_attempt SET look_at = {_LATER} WHERE job_id = %s AND ended_at IS NOT NULL AND finished_at IS NULL",
        [seconds, job_id],
    )


def verify(job_id: UUID, seconds: int) -> None:
    """Its open attempt is looked at later."""
    fetch(
        f"UPDATE jobs_attempt SET look_at = {_LATER} WHERE job_id = %s AND ended_at IS NULL AND look_at IS NOT NULL",
        [seconds, job_id],
    )


def cancel(job_id: UUID, seconds: int) -> None:
    """Its upstream is asked to cancel later."""
    fetch(
        f"UPDATE jobs_attempt SET cancel_at = {_LATER} WHERE job_id = %s AND ended_at IS NULL AND cancel_at IS NOT NULL",
        [seconds, job_id],
    )


def lease_end(job_id: UUID, seconds: int) -> None:
    """Its lease, which has ended, ends later. Whoever had it may renew it meanwhile: the fence still stands."""
    fetch(
        f"UPDATE jobs_attempt SET lease_until = {_LATER} WHERE job_id = %s AND lease_until <= clock_timestamp()",
        [seconds, job_id],
    )


def turn(job_id: UUID, seconds: int) -> None:
    """It leaves its line, and comes due later."""
    fetch(
        f"UPDATE jobs_job SET turn = NULL, due_at = {_LATER} WHERE id = %s AND state = 'pending'",
        [seconds, job_id],
    )


def deadline(job_id: UUID, seconds: int) -> None:
    """Its deadline for the first start, which has passed, is looked at later."""
    fetch(f"UPDATE jobs_job SET start_deadline = {_LATER} WHERE id = %s AND state = 'pending'", [seconds, job_id])
