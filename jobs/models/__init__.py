"""The tables of this app: job types, jobs and what became of them, and the redrives of dead letters."""

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
]
