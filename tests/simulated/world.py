"""One seed's world: rows of its own, logical processes, tenants' programs and faults; then a drain without faults."""

import contextlib
import random
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import uuid_utils.compat
from django.conf import settings
from django.db import connection

from credits import ledger
from credits.errors import InsufficientCredits
from jobs import admission, calls, transitions, wakes
from jobs.flow import FLOW
from jobs.models import Job, JobType
from pool.models import Pool, Resource, UpstreamAccount
from tenants.models import Tenant
from tests.simulated import due
from tests.simulated.checks import Breach, Checks
from tests.simulated.clock import EPOCH, Clock
from tests.simulated.crew import Crew, Task
from tests.simulated.mailbox import Mailbox
from tests.simulated.plan import MICRO, PRICE, Act, Plan
from tests.simulated.process import Process
from tests.simulated.provider import Network
from tests.simulated.scheduler import Scheduler
from upstream import loop, outcomes

MAIN_SECONDS = 25.0
DRAIN_SECONDS = 3_600.0
IDLE_SECONDS = 0.25  # of nothing being due, before time jumps to what is


class World:
    """Everything that a seed chose, and chooses."""

    def __init__(self, plan: Plan, crew: Crew, cursor: Any) -> None:
        self.plan, self.cursor = plan, cursor
        self.clock = Clock()
        for module in (calls, wakes, loop, outcomes):
            module.time = self.clock  # type: ignore[attr-defined]
        self.scheduler = Scheduler(plan.seed, crew, self.clock, cursor)
        self.scheduler.step_seconds = self._step_seconds
        self.scheduler.one_waits = not plan.crowds
        self.random = self.scheduler.random
        random.seed(plan.seed)  # the product's own jitter
        uuid_utils.compat.uuid7 = self._new_id  # type: ignore[assignment]
        self._ids = 0
        self.names: dict[str, str] = {}  # of jobs, for the trace
        self.made: dict[tuple[int, str], set[str]] = {}  # tenant and key → jobs
        self.kinds = {kind.name: kind for kind in plan.kinds}
        self.draining = self._rested = False
        self._due: due.Due | None = None
        self.mailbox = Mailbox(self)
        self.checks = Checks(self)
        self.network = Network(self)
        self.web = Process(self, "web")
        self.workers = [Process(self, f"worker{number}") for number in range(1, plan.workers + 1)]
        self._crashes, self._pauses, self._stalls = plan.crashes, (plan.pauses + 1) // 2, plan.stalls
        self._chance = random.Random(f"stalls {plan.seed}")
        self._make_rows()

    def run(self) -> None:
        """Raises Breach."""
        for act in self.plan.acts:
            self.scheduler.at(act.at, lambda act=act: self._act(act))  # type: ignore[misc]
        self._plan_faults()
        self._sweep_later(self.random.uniform(0, 2))
        self._until(MAIN_SECONDS)
        if self.plan.calm:
            self.checks.hinted()
            self.checks.judge()
        self._begin_to_drain()
        self._until(DRAIN_SECONDS)
        self.checks.drained()

    def stop(self) -> None:
        """Ends all tasks."""
        for task in list(self.scheduler.active):
            self.scheduler.kill(task)
        for process in [*self.workers, self.web]:
            process.forget_calls()

    def short(self, key: str) -> str:
        """A dispatch key as the trace names it."""
        _, job, number = key.split(".")
        return f"{self.names.get(job, job)}.{number}"

    def ended(self, task: Task) -> None:
        self.mailbox.ended(task)
        self.checks.ended(task)

    def _until(self, seconds: float) -> None:
        end = self.clock.us + seconds * 1e6
        while self.clock.us < end and not self._is_at_rest():
            self.scheduler.step()
            self.checks.judge()
            if self._crashes and self.random.random() < self.plan.crash:
                self._kill_somebody()

    def _is_at_rest(self) -> bool:
        return self.draining and self._rested

    # --- faults ---

    def _plan_faults(self) -> None:
        for _ in range(self.plan.pauses // 2):
            self.scheduler.at(self.random.uniform(0, 12), self._pause_somebody)
        for _ in range(self.plan.outages):
            away = self.random.random() < 0.5
            what = self.mailbox.be_emptied if away else lambda: self.mailbox.go_away(self.random.uniform(0.2, 5))
            self.scheduler.at(self.random.uniform(0, 12), what)

    def _kill_somebody(self) -> None:
        living = [process for process in [*self.workers, self.web] if process.lives]
        busy = [process for process in living if process.tasks or process.flying]
        if busy:
            self._crashes -= 1
            self.random.choice(busy).crash()

    def _pause_somebody(self) -> None:
        still = [process for process in self.workers if process.lives]
        if still:
            calling = [process for process in still if process.flying]
            self._pause(self.random.choice(calling or still))

    def answers(self, process: Process) -> None:
        """An answer is on its way to this process: the worst moment to stand still."""
        if self._pauses and self.random.random() < 0.2:
            self._pauses -= 1
            self._pause(process)

    def calls(self, process: Process) -> None:
        """This process has committed an intent, and is about to call."""
        if self._stalls and self._chance.random() < 0.4:
            self._stalls -= 1
            self._pause(process)

    def _pause(self, process: Process) -> None:
        """It stands still, as under SIGSTOP; not within a transaction, which the server would end."""
        if not self.draining and not any(task.in_transaction for task in process.tasks):
            seconds = self.random.choice([self.random.uniform(0.5, 12), self.random.uniform(15, 45)])
            self.scheduler.say(process.name, f"stands still for {seconds:.1f} s")
            process.paused_until_us = max(process.paused_until_us, self.clock.us + round(seconds * 1e6))

    def _begin_to_drain(self) -> None:
        self.scheduler.say("world", "drains")
        self.draining, self._rested, self._crashes = True, False, 0
        self.mailbox.come_back()
        for name in (
            "lost",
            "doubled",
            "late",
            "refused",
            "cut_before",
            "cut_after",
            "busy",
            "unavailable",
            "error",
            "gateway",
        ):
            setattr(self.plan, name, 0.0)

    def _step_seconds(self) -> float:
        draw = self.random.random()
        if draw >= self.plan.slow_steps + (0.4 if self.plan.calm else 0.15):
            return self.random.uniform(0.0005, 0.004)
        if draw >= self.plan.slow_steps:
            return self.random.uniform(0.004, 0.04 if self.plan.calm else 0.4)
        return self.random.uniform(0.3, 3)

    # --- the sweep ---

    def _sweep_later(self, seconds: float) -> None:
        self.scheduler.at(seconds, self._sweep)

    def _sweep(self) -> None:
        """What is due is swept by one who lives; while nothing is, time goes on to what will be."""
        if self._due is None or self._due_runs != self.scheduler.runs or self._due_us <= self.clock.us:
            self.scheduler.tell_time()
            self._due, self._due_runs = due.now(self.cursor), self.scheduler.runs
            self._due_us = self.clock.us + (self._due.next_seconds or 0.0) * 1e6
        found = self._due
        living = [process for process in [*self.workers, self.web] if process.lives]
        free = [process for process in living if not process.sweeping]
        steps = [step for step in FLOW if step.task in found.steps]
        busy = bool(self.scheduler.active or self.mailbox.under_way)
        if self.plan.calm and not self.draining:
            self.checks.calm(frozenset() if busy else found.steps)
            steps = [step for step in steps if step.task in due.OF_TIME]
        if steps and free:
            process = self.random.choice(free)
            if process is self.web:
                steps = [step for step in steps if not step.needs_calls]
            process.sweep(steps)
        # An open breaker may wait for ever for a success that nobody asks for any more.
        waiting = any(step.task != "replace_probes" for step in steps)
        busy = busy or waiting
        self._rested = not busy and found.next_seconds is None and not self._anything_flies()
        pause = self.random.uniform(0.1, 0.4) if self.plan.calm else self.random.uniform(0.3, 1.2)
        if not busy and self.draining and found.next_seconds is not None:
            pause = max(pause, (self._due_us - self.clock.us) / 1e6)
        self._sweep_later(pause)

    def _anything_flies(self) -> bool:
        return any(process.flying for process in self.workers)

    # --- tenants ---

    def _act(self, act: Act) -> None:
        if not self.web.lives:
            self.scheduler.at(0.3, lambda: self._act(act))
            return
        what = self._submit if act.what == "submit" else self._cancel
        for _ in range(2 if act.twice else 1):
            self.web.do(f"{act.what} {act.key[-2:]}", lambda: what(act), 0.0)

    def _submit(self, act: Act) -> None:
        asked = admission.Request(
            type=f"{self.prefix}{act.kind}",
            payload={},
            run_at=None if act.run_at is None else datetime.fromtimestamp(EPOCH + act.run_at, UTC),
            start_deadline_ms=None if act.deadline is None else round(act.deadline * 1_000),
        )
        made = self.made.setdefault((act.tenant, act.key), set())
        with contextlib.suppress(InsufficientCredits, admission.RequestInProgress):
            job, _ = admission.submit(self.tenants[act.tenant], asked, act.key, b"f" * 32)
            made.add(str(job.pk))

    def _cancel(self, act: Act) -> None:
        job = Job.objects.filter(tenant=self.tenants[act.tenant], idempotency_key=act.key).values_list("pk").first()
        if job is not None:
            transitions.cancel(job[0])

    # --- rows ---

    def _new_id(self) -> UUID:
        """In an order of chance within the seed: it is the order of locks."""
        self._ids += 1
        made = UUID(f"{self.plan.seed % 2**32:08x}-{self.random.getrandbits(16):04x}-7000-8000-{self._ids:012x}")
        self.names[str(made)] = f"job{self._ids}"
        return made

    def _make_rows(self) -> None:
        plan, seed = self.plan, self.plan.seed
        self.scheduler.tell_time()
        self.prefix = f"s{seed}-"
        upstream = {"adapter": "http", "base_url": "http://provider.test"}
        self.pool = Pool.objects.create(name=f"s{seed}", cooldown_ms=plan.cooldown_ms, upstream=upstream)
        for number in range(plan.accounts):
            account = UpstreamAccount(pool=self.pool, name=f"account{number}", sessions=plan.sessions)
            account.credential = f"account{number}"
            account.save()
            Resource.objects.bulk_create(
                Resource(pool=self.pool, account=account, number=session + 1) for session in range(plan.sessions)
            )
        JobType.objects.bulk_create(
            JobType(
                **{
                    "name": f"{self.prefix}{kind.name}",
                    "pool": self.pool,
                    "price": str(PRICE),
                    "settle": "outcome.units",
                },
                **{
                    "max_runtime_ms": round(kind.max_runtime * 1_000),
                    "delivery": kind.delivery,
                    "upstream": kind.upstream,
                },
                retry={"attempts": kind.attempts, "first_ms": kind.first_ms, "max_ms": 3_000},
            )
            for kind in plan.kinds
        )
        self.tenants = []
        for number, (cap, opening) in enumerate(zip(plan.caps, plan.credits, strict=True)):
            billing = Tenant.Billing.NONE if opening is None else Tenant.Billing.CREDITS
            tenant = Tenant.objects.create(name=f"s{seed}-tenant{number}", max_running=cap, billing=billing)
            ledger.open_wallet(tenant.pk)
            if opening is not None:
                ledger.grant(tenant.pk, opening * MICRO, f"opening:{tenant.name}")
            self.tenants.append(tenant)
        connection.close()


settings.LEASE_SECONDS = 15.0
__all__ = ["Breach", "World"]
