"""What the sweep looks for: work whose signal was lost, and what time alone brings. Each question is bounded."""

from typing import Any
from uuid import UUID

from jobs.queries.suspicions import IS_SUSPECTED
from jobs.states import CALLING, INTENDED
from statemachine.sql import fetch

MOST = 200  # rows one question returns; the next sweep takes the rest

# A signal is given this long before the sweep does its work.
GRACE = "interval '700 milliseconds'"


def _column(sql: str, parameters: list[Any] | None = None) -> list[Any]:
    return [next(iter(row.values())) for row in fetch(sql, parameters or [])]


def pools_to_assign() -> list[int]:
    """Pools with a free session and a job whose turn it is."""
    return _column("""
        SELECT p.id FROM pool_pool p WHERE p.accepting AND p.quarantined_at IS NULL
          AND EXISTS (SELECT 1 FROM pool_resource r
                      WHERE r.pool_id = p.id AND r.state = 'available' AND r.accepting AND NOT r.quarantined)
          AND EXISTS (SELECT 1 FROM jobs_job j
                      WHERE j.pool_id = p.id AND j.state = 'pending' AND j.turn IS NOT NULL)
        ORDER BY p.id""")


def jobs_to_dispatch() -> list[UUID]:
    """Assigned jobs that no worker has taken up yet."""
    return _column(f"""
        SELECT job_id FROM jobs_attempt
        WHERE ended_at IS NULL AND phase = '{INTENDED}' AND opened_at < clock_timestamp() - {GRACE}
          AND lease_until > clock_timestamp()
        ORDER BY id LIMIT {MOST}""")


def jobs_to_finish() -> list[UUID]:
    """Jobs whose attempt has ended and whose consequences were not drawn."""
    return _column(f"""
        SELECT job_id FROM jobs_attempt
        WHERE ended_at < clock_timestamp() - {GRACE} AND finished_at IS NULL AND fetch_at IS NULL
          AND (look_at IS NULL OR look_at <= clock_timestamp())
        ORDER BY id LIMIT {MOST}""")


def jobs_to_cancel() -> list[UUID]:
    """Jobs whose upstream is to be asked to cancel what runs."""
    return _column(f"""
        SELECT job_id FROM jobs_attempt WHERE ended_at IS NULL AND cancel_at <= clock_timestamp()
        ORDER BY cancel_at, id LIMIT {MOST}""")


def jobs_to_fetch() -> list[UUID]:
    """Jobs whose result lies behind links, and is due to be fetched."""
    return _column(f"""
        SELECT job_id FROM jobs_attempt WHERE fetch_at <= clock_timestamp()
        ORDER BY fetch_at, id LIMIT {MOST}""")


def jobs_to_verify() -> list[UUID]:
    """Jobs whose attempt is due to be asked for: accepted, or of unknown outcome."""
    return _column(f"""
        SELECT job_id FROM jobs_attempt
        WHERE ended_at IS NULL AND lease_until IS NULL AND look_at <= clock_timestamp()
        ORDER BY look_at, id LIMIT {MOST}""")


def jobs_to_unassign() -> list[UUID]:
    """Jobs whose lease ended before the intent was written."""
    return _column(f"""
        SELECT job_id FROM jobs_attempt
        WHERE ended_at IS NULL AND phase = '{INTENDED}' AND lease_until <= clock_timestamp()
        ORDER BY job_id LIMIT {MOST}""")


def jobs_to_doubt() -> list[UUID]:
    """Jobs whose lease ended after the intent: the upstream may have been called."""
    return _column(f"""
        SELECT job_id FROM jobs_attempt
        WHERE ended_at IS NULL AND phase = '{CALLING}' AND lease_until <= clock_timestamp()
        ORDER BY job_id LIMIT {MOST}""")


def jobs_come_due() -> list[UUID]:
    """Jobs whose run_at or back-off has passed."""
    return _column(f"""
        SELECT id FROM jobs_job WHERE state = 'pending' AND due_at <= clock_timestamp()
        ORDER BY due_at, id LIMIT {MOST}""")


def jobs_to_expire() -> list[UUID]:
    """Jobs that did not start before their deadline; not those of which a restore has left unknown whether they did."""
    return _column(f"""
        SELECT t.id FROM jobs_job t
        WHERE t.state = 'pending' AND t.start_deadline <= clock_timestamp() AND t.started_at IS NULL AND NOT {IS_SUSPECTED}
        ORDER BY t.start_deadline, t.id LIMIT {MOST}""")


def late_completions() -> list[UUID]:
    """Jobs of which a success surfaced late, and nobody has decided yet what that means."""
    return _column(f"""
        SELECT job_id FROM jobs_latecompletion WHERE decided_at IS NULL AND look_at < clock_timestamp() - {GRACE}
        ORDER BY look_at, id LIMIT {MOST}""")


def resources_to_release() -> list[int]:
    """Sessions whose cooldown is over."""
    return _column(f"""
        SELECT id FROM pool_resource WHERE state = 'cooldown' AND available_at <= clock_timestamp()
        ORDER BY id LIMIT {MOST}""")
