"""An operator's word where the upstream does not say: it was executed, or nobody will know."""

from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from jobs import closing, transitions
from jobs.findings import Finding
from jobs.models import Job
from jobs.queries import endings, flights
from jobs.queries import reviews as asked
from pool.queries import health
from statemachine.crashpoints import crashpoint


class NothingToDecide(Exception):
    """The job has no attempt whose outcome is unknown, or it is being asked for right now."""


@dataclass(frozen=True)
class Word:
    """What an operator (`by`, as in the history) says of an unknown outcome, and why. `units`: as the upstream counts."""

    executed: bool
    reason: str
    by: str
    units: float | None = None


def decide(job_id: UUID, word: Word) -> Job:
    """PROCESSING → COMPLETED | FAILED | CANCELLED: the session is declared over, and the outcome what the operator says.

    The same way as an answer (`learn`, then `finish`), in one transaction: evidence, end, money, event. Locks the job, its
    attempt, the health of its pool (which `finish` may write, and which comes before sessions), the session, the balance;
    whoever ended or sent it meanwhile has won. Raises NothingToDecide.
    """
    said = {"by": word.by, "reason": word.reason, "session": "declared over"}
    with transaction.atomic():
        endings.lock([job_id])
        found = flights.undecided([job_id])
        if not found:
            raise NothingToDecide("no outcome of it is unknown, or it is being found out right now")
        health.lock([flight.row["pool_id"] for flight in found])
        transitions.learn([Finding.of_operator(flight, word.executed, word.units, said) for flight in found])
        crashpoint("decide.learned")
        transitions.finish([job_id])
    return Job.objects.get(pk=job_id)


def mark(job_id: UUID) -> str:
    """Attempt and fence of which there is something to decide; empty when there is nothing."""
    case = asked.unknown(job_id)
    return "" if case is None else f"{case['attempt_id']}/{case['fence']}"


def cost(job_id: UUID, units: float | None) -> tuple[int, int]:
    """What the job would be charged if it was executed, at most what is held, and what its tenant would owe beyond that.

    In micro-credits.
    """
    case = asked.unknown(job_id)
    if case is None:
        return 0, 0
    price = closing.charge({**case, "units": units})[0]
    return min(case["price"], price), max(0, price - case["price"]) if case["overrun"] == "debt" else 0
