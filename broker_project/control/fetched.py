"""What an operator may do for a result that waits to be fetched: have it tried again at once."""

from collections.abc import Mapping, Sequence
from typing import Any

from broker_project.control.jobs import JobOperation
from broker_project.control.words import moment
from jobs import fetching
from jobs.models import Job
from jobs.queries import fetches
from statemachine.operations import Effect, Refused


class FetchNow(JobOperation):
    """PROCESSING stays PROCESSING: the try that is due later is made now, with what is declared now."""

    name, title, icon = "fetch_now", "Fetch the result now", "download"
    says = (
        "The work was done; its result waits where the upstream left it. Mend what is declared first: what the type says now "
        "is what counts. The work is not done again, and what is held stays held."
    )

    def concerns(self, row: Job) -> bool:
        return row.state == "processing" and fetches.owing(row.pk) is not None

    def effects(self, rows: Sequence[Job], data: Mapping[str, Any]) -> list[Effect]:
        return [self._effect(job) for job in rows]

    def perform(self, row: Job, data: Mapping[str, Any]) -> str:
        if not fetching.hasten(row.pk):
            raise Refused("no result of it waits, or it is being fetched right now")
        return "it is being fetched"

    def _effect(self, job: Job) -> Effect:
        owing = fetches.owing(job.pk) if job.state == "processing" else None
        if owing is None:
            return Effect(job, job.state, "", "no result of it waits to be fetched")
        now = f"{job.state}, its result waits: {owing['error_message']}; tried {owing['tries']} times"
        return Effect(job, now, f"fetched now instead of at {moment(owing['fetch_at'])}")
