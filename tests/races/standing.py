"""What the rows say of a job after a race, in one question."""

from dataclasses import dataclass
from uuid import UUID

from jobs.states import JOB
from tests import db

_STANDING = """
SELECT j.state, j.cancel_requested_at IS NOT NULL, j.error->>'code', j.crashes,
       ARRAY(SELECT m.from_state || '>' || m.to_state FROM jobs_jobmove m WHERE m.subject_id = j.id ORDER BY m.id),
       ARRAY(SELECT e.type FROM webhooks_event e WHERE e.job_id = j.id),
       ARRAY(SELECT h.status || ' ' || COALESCE(h.captured, 0) FROM credits_hold h WHERE h.job_id = j.id),
       (SELECT count(*) FROM jobs_attempt a WHERE a.job_id = j.id AND a.ended_at IS NULL),
       (SELECT count(*) FROM jobs_attempt a WHERE a.job_id = j.id AND a.sendings > 0),
       (SELECT r.state FROM pool_resource r WHERE r.pool_id = j.pool_id)
FROM jobs_job j WHERE j.id = %s"""


@dataclass(frozen=True)
class Standing:
    """A job, its history, events and hold, and the one session of its pool."""

    state: str
    cancel_requested: bool
    error: str | None
    crashes: int
    moves: list[str]  # "from>to", the oldest first
    events: list[str]
    holds: list[str]  # "status captured", in micro-credits
    open_attempts: int
    sent_attempts: int
    session: str


def standing(job_id: UUID) -> Standing:
    """What is committed now."""
    return Standing(*db.rows(_STANDING, [job_id])[0])


def assert_legal(seen: Standing) -> None:
    """Each move begins where the one before it ended, along an arrow; the last leads to where the job stands."""
    at = ""
    for move in seen.moves:
        origin, target = move.split(">")
        assert origin == at, seen
        assert not origin or (origin, target) in JOB.moves, seen
        at = target
    assert at == seen.state, seen


def assert_ended(seen: Standing, state: str, charged: int) -> None:
    """It has ended once, in this state; its hold is closed with this charge, its event told, its session free."""
    assert_legal(seen)
    assert (seen.state, seen.session, seen.open_attempts) == (state, "available", 0), seen
    assert [move.split(">")[1] in JOB.terminal for move in seen.moves].count(True) == 1, seen
    assert seen.events == [f"job.{state}"], seen
    assert seen.holds == [f"captured {charged}" if state == "completed" else "released 0"], seen
