"""The kinds of races: which verbs meet at one job, what may come of it, and what must not."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jobs import asking, late, transitions
from jobs.models import Job
from tests import db, factories
from tests.factories import FAILURE, HOLDER, MICRO, SUCCESS
from tests.races.standing import Standing, assert_ended, assert_legal, standing

CHARGE = 3 * MICRO  # for the units of SUCCESS
OTHER_SUCCESS = replace(SUCCESS, units=5.0)
OTHER_CHARGE = 5 * MICRO
NOBODY_IS_BLAMED = {"failures": 1_000_000}


class OneSession:
    """A pool of one session, a type and a tenant; each round has a job of its own."""

    def __init__(self, **of_type: Any) -> None:
        pool = factories.make_pool(breaker=NOBODY_IS_BLAMED)
        self.job_type = factories.make_job_type(pool, **of_type)
        self.tenant = factories.make_tenant(credits=1_000_000)
        self.spent = 0
        self.job: Job
        self.answer = SUCCESS

    def assigned(self, dice: random.Random, **request: Any) -> None:
        """A new job on the session, and what the upstream will say of it."""
        self.answer = dice.choice([SUCCESS, FAILURE])
        self.job = factories.submit(self.tenant, self.job_type, **request)
        assert transitions.assign(self.job.pool_id) == 1

    def let_the_lease_end(self, *, after_max_runtime: bool = False) -> None:
        """As if its worker had been gone for so long."""
        called = ", called_at = called_at - interval '1 hour'" if after_max_runtime else ""
        db.execute(
            f"UPDATE jobs_attempt SET lease_until = clock_timestamp(){called} WHERE job_id = %s AND ended_at IS NULL",
            [self.job.pk],
        )

    def cancel(self) -> bool:
        return transitions.cancel(self.job.pk)

    def finish(self) -> int:
        return transitions.finish([self.job.pk])

    def seen(self) -> Standing:
        return standing(self.job.pk)

    def ended(self, state: str, charged: int = 0) -> Standing:
        """Everything about the job and its tenant's money is as it must be after this end."""
        seen = self.seen()
        assert_ended(seen, state, charged)
        self.spent += charged if state == "completed" else 0
        assert factories.money(self.tenant) == (1_000_000 * MICRO - self.spent, 0), seen
        return seen

    def ended_by_the_answer(self, *, cancelled: bool = False) -> Standing:
        """A success is charged whatever was wished; a failure follows the wish."""
        if self.answer is SUCCESS:
            return self.ended("completed", CHARGE)
        return self.ended("cancelled" if cancelled else "failed")


class CancelStart(OneSession):
    """A tenant cancels while a worker commits the intent and calls."""

    name = "cancel × start"

    def __init__(self) -> None:
        super().__init__()
        self.sides: dict[str, Callable[[], Any]] = {"cancel": self.cancel, "start": self.start}

    def ready(self, dice: random.Random) -> None:
        self.assigned(dice)

    def start(self) -> list[Any]:
        """The calls that its worker makes."""
        return transitions.dispatch([self.job.pk], HOLDER)

    def judge(self, answers: dict[str, Any]) -> str:
        calls = answers["start"]
        if answers["cancel"]:
            assert calls == []
            assert self.ended("cancelled").sent_attempts == 0
            return "cancel"
        (call,) = calls
        seen = self.seen()
        assert (seen.state, seen.cancel_requested, seen.session, seen.holds) == (
            "processing", True, "busy", ["open 0"],
        )  # fmt: skip
        factories.learn(call, self.answer)
        self.finish()
        self.ended_by_the_answer(cancelled=True)
        return "start"


class CancelFinish(OneSession):
    """A tenant cancels while the consequences of an ended attempt are drawn: success, failure, or another try."""

    name = "cancel × finish"

    def __init__(self) -> None:
        super().__init__(delivery="at_least_once")
        self.sides: dict[str, Callable[[], Any]] = {"cancel": self.cancel, "finish": self.finish}

    def ready(self, dice: random.Random) -> None:
        self.tries = dice.choice([1, 2])
        self.assigned(dice, max_attempts=self.tries)
        factories.learn(factories.dispatch(self.job), self.answer)

    def judge(self, answers: dict[str, Any]) -> str:
        assert answers["finish"] == 1
        retried = self.answer is FAILURE and self.tries == 2
        wished = self.seen().cancel_requested  # then the wish was there when the end was drawn
        # After another try was granted a cancel meets a job that waits, and ends it at once.
        assert answers["cancel"] == (retried and not wished)
        seen = self.ended_by_the_answer(cancelled=wished or retried)
        assert ("processing>pending" in seen.moves) == (retried and not wished)
        return "cancel" if wished else "finish"


class ExpireAssign(OneSession):
    """The deadline for the first start passes while a session is given."""

    name = "expire × assign"

    def __init__(self) -> None:
        super().__init__()
        self.sides: dict[str, Callable[[], Any]] = {"expire": self.expire, "assign": self.assign}

    def ready(self, dice: random.Random) -> None:
        self.answer = dice.choice([SUCCESS, FAILURE])
        self.job = factories.submit(self.tenant, self.job_type, start_deadline_ms=1)
        db.rows("SELECT pg_sleep(0.001)")

    def expire(self) -> int:
        return transitions.expire([self.job.pk])

    def assign(self) -> int:
        return transitions.assign(self.job.pool_id)

    def judge(self, answers: dict[str, Any]) -> str:
        assert sorted(answers.values()) == [0, 1]
        if answers["expire"]:
            seen = self.ended("failed")
            assert (seen.error, seen.sent_attempts) == ("expired", 0)
            return "expire"
        seen = self.seen()
        assert (seen.state, seen.session, seen.holds) == ("assigned", "reserved", ["open 0"])
        factories.learn(factories.dispatch(self.job), self.answer)
        self.finish()
        self.ended_by_the_answer()
        return "assign"


class LeaseEndStart(OneSession):
    """The sweep takes a job back whose worker seems to be gone, while that worker commits the intent."""

    name = "lease end × start"

    def __init__(self) -> None:
        super().__init__()
        self.sides: dict[str, Callable[[], Any]] = {"lease end": self.unassign, "start": self.start}

    def ready(self, dice: random.Random) -> None:
        self.assigned(dice)
        self.let_the_lease_end()

    def unassign(self) -> int:
        return transitions.unassign([self.job.pk])

    def start(self) -> list[Any]:
        return transitions.dispatch([self.job.pk], HOLDER)

    def judge(self, answers: dict[str, Any]) -> str:
        winner = "lease end" if answers["lease end"] else "start"
        assert len(answers["start"]) == (winner == "start")
        calls = answers["start"]
        if winner == "lease end":
            seen = self.seen()
            assert (seen.state, seen.session, seen.open_attempts) == ("pending", "available", 0)
            assert transitions.assign(self.job.pool_id) == 1
            calls = transitions.dispatch([self.job.pk], HOLDER)
        factories.learn(calls[0], self.answer)
        self.finish()
        assert self.ended_by_the_answer().sent_attempts == 1
        return winner


class LeaseEndFinish(OneSession):
    """A worker brings its answer while the sweep doubts it and sends the same key again, under a new fence."""

    name = "lease end × finish"

    def __init__(self) -> None:
        super().__init__(idempotent=True)
        self.sides: dict[str, Callable[[], Any]] = {"lease end": self.send_again, "finish": self.bring}

    def ready(self, dice: random.Random) -> None:
        self.assigned(dice)
        self.flight = factories.dispatch(self.job)
        self.let_the_lease_end()

    def send_again(self) -> list[Any]:
        transitions.doubt([self.job.pk])
        return asking.verify([self.job.pk], "another worker")

    def bring(self) -> int:
        factories.learn(self.flight, self.answer)
        return self.finish()

    def judge(self, answers: dict[str, Any]) -> str:
        again = answers["lease end"]
        assert answers["finish"] == (not again), "whoever is late moves nothing"
        if not again:
            self.ended_by_the_answer()
            return "finish"
        seen = self.seen()
        assert_legal(seen)
        assert (seen.state, seen.session, seen.open_attempts, seen.holds) == ("processing", "busy", 1, ["open 0"])
        assert again[0].fence > self.flight.fence
        factories.learn(again[0], OTHER_SUCCESS)
        self.finish()
        late.book([self.job.pk])
        self.ended("completed", OTHER_CHARGE)
        return "lease end"


class AllAtOnce(OneSession):
    """A tenant cancels, the late answer comes, max_runtime has passed, and the sweep looks: all at one instant.

    Whoever ended the job has won; a job that ended cancelled was ended by the cancel, whoever wrote it down.
    """

    name = "cancel × finish × time-out × sweep"

    def __init__(self) -> None:
        super().__init__()
        self.sides: dict[str, Callable[[], Any]] = {
            "cancel": self.cancel, "finish": self.bring, "time-out": self.time_out, "sweep": self.sweep,
        }  # fmt: skip

    def ready(self, dice: random.Random) -> None:
        self.assigned(dice)
        self.flight = factories.dispatch(self.job)
        self.let_the_lease_end(after_max_runtime=True)

    def bring(self) -> int:
        factories.learn(self.flight, self.answer)
        return self.finish()

    def time_out(self) -> int:
        transitions.doubt([self.job.pk])
        assert asking.verify([self.job.pk], "another worker") == []
        return self.finish()

    def sweep(self) -> int:
        ended = 0
        for _ in range(3):
            transitions.doubt([self.job.pk])
            ended += self.finish()
        return ended

    def judge(self, answers: dict[str, Any]) -> str:
        assert answers["cancel"] is False, "it was sent: a cancel is a wish"
        closers = [side for side in ("finish", "time-out", "sweep") if answers[side]]
        late.book([self.job.pk])
        seen, wished = self.seen(), self.seen().cancel_requested
        if seen.error == "outcome_unknown" or (seen.state == "cancelled" and self.answer is SUCCESS):
            self.ended("cancelled" if wished else "failed")
        else:
            self.ended_by_the_answer(cancelled=wished)
        assert len(closers) == 1, "one of them drew the end, once"
        return "cancel" if seen.state == "cancelled" else closers[0]


KINDS: tuple[type[Any], ...] = (CancelStart, CancelFinish, ExpireAssign, LeaseEndStart, LeaseEndFinish, AllAtOnce)
