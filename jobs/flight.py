"""A flight is an attempt on its way to the upstream."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from jobs import inquiry
from jobs.states import ACCEPTED, UNKNOWN
from jobs.verdicts import CRASH_BUDGET, DEFAULT_RETRY
from statemachine.sql import Row
from upstream.calls import Action
from upstream.declared import Declared, as_written
from upstream.ways import Ways


@dataclass(frozen=True)
class Flight:
    """An attempt with all that its calls, its lease and its end need. `row` is one of `queries.flights`.

    `action` is what the upstream is to be called for.
    """

    attempt_id: int
    fence: int
    job_id: UUID
    resource_id: int
    row: Row
    action: Action = "submit"

    @property
    def fenced(self) -> tuple[int, int]:
        """The attempt and the fence it was sent with: of one attempt two may be told of at once, one of them too late."""
        return self.attempt_id, self.fence

    @property
    def upstream(self) -> Mapping[str, Any]:
        """What is declared of its upstream."""
        return self._declared.upstream

    @property
    def ways(self) -> Ways:
        """By which ways its outcome can be learned. Elsewhere than it was sent, its reference may be that of other work, and of
        what is called otherwise nobody stops whatever has its key.
        """
        ways = self._declared.ways
        if self.declared_as_called:
            return ways
        there = self.declared_where_called
        polls, cancels = there or ways.polls_by_key, there and ways.cancel_needs_reference
        return replace(
            ways, polls=ways.polls and polls, confirms=ways.confirms and polls, cancels=ways.cancels and cancels
        )

    @property
    def _declared(self) -> Declared:
        return as_written(self.row["pool_upstream"], self.row["type_upstream"])

    @property
    def may_send_again(self) -> bool:
        """Whether an unknown outcome may be found out by sending the same key once more: of a job that nobody wants any
        more it would only begin the work, and so it would where calls are made otherwise by now.
        """
        attempts = int({**DEFAULT_RETRY, **self.row["retry"]}["attempts"])
        may = self.row["sendings"] <= attempts and self.row["crashes"] < CRASH_BUDGET and not self.row["cancel_wanted"]
        return self.ways.idempotent and may and self.declared_as_called

    @property
    def declared_as_called(self) -> bool:
        """Whether its upstream is still called at the place, and with the request, that it was sent with."""
        return bool(self.row["declared_as_called"])

    @property
    def declared_where_called(self) -> bool:
        """Whether that is still the place, whatever it is sent."""
        return bool(self.row["declared_where_called"])

    @property
    def way(self) -> inquiry.Way:
        """How its outcome is learned next."""
        return inquiry.way(self.row, self.ways, self.may_send_again)

    @property
    def over_ms(self) -> int:
        """So long after its intent the upstream session is certainly over: it may have been sent until its lease ended."""
        return int(self.row["over_ms"])

    @property
    def waited_out(self) -> bool:
        """Whether that time has passed since it was last sent."""
        return bool(self.row["waited_out"])

    @property
    def asked_in_vain(self) -> bool:
        """Whether it was asked for after max_runtime, and still nobody knew."""
        return bool(self.row["asked_since"]) and self.row["verdict"] == UNKNOWN

    @property
    def was_taken(self) -> bool:
        """Whether the upstream had shown that it took the work, when this row was read."""
        return self.row["phase"] == ACCEPTED or bool(self.row["reference"]) or self.row["told_at"] is not None

    @property
    def repeat(self) -> bool:
        """Whether its key may have been received before."""
        return int(self.row["sendings"]) > 1
