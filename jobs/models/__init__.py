"""The tables of this app: job types, jobs and what became of them, redrives of dead letters, suspicions after a restore."""

from jobs.models.jobs import (
    DEAD_LETTER,
    Attempt,
    Evidence,
    Job,
    JobMove,
    JobType,
    LateCompletion,
    Line,
    NextArrival,
)
from jobs.models.redrives import Redrive
from jobs.models.suspicions import Suspicion

__all__ = [
    "DEAD_LETTER",
    "Attempt",
    "Evidence",
    "Job",
    "JobMove",
    "JobType",
    "LateCompletion",
    "Line",
    "NextArrival",
    "Redrive",
    "Suspicion",
]
