"""What runs of jobs were charged, and what of it was given back since."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from credits import queries

_CHARGES = """
SELECT h.job_id, h.run, t.amount, coalesce(r.amount, 0)::bigint
FROM credits_hold h
JOIN credits_transfer t ON t.op_key = 'settle:' || h.id
CROSS JOIN LATERAL (SELECT sum(amount) AS amount FROM credits_transfer WHERE reverses_id = t.id) r
WHERE h.job_id = ANY(%(jobs)s::uuid[]) AND h.attempt = 0
"""


@dataclass(frozen=True, slots=True)
class Charge:
    """Micro-credits."""

    charged: int
    refunded: int

    @property
    def left(self) -> int:
        return self.charged - self.refunded


def charges_of(job_ids: Iterable[UUID]) -> dict[tuple[UUID, int], Charge]:
    """By (job, run); runs that were charged nothing are not in it. As last committed; locks nothing."""
    rows = queries.all_rows(_CHARGES, jobs=list(job_ids))
    return {(job_id, run): Charge(charged, refunded) for job_id, run, charged, refunded in rows}
