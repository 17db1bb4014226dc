"""What a seed chooses before anything happens: the faults of the run, the capacity, the types, and what tenants do."""

import random
from dataclasses import dataclass, field
from typing import Any

MICRO = 1_000_000
PRICE = 10  # credits held by each job


@dataclass(frozen=True)
class Kind:
    """A job type, and how its upstream behaves. Times in seconds."""

    name: str
    mode: str = "sync"
    deduplicates: bool = False
    finds: bool = False
    cancels: bool = False
    delivery: str = "at_most_once"
    attempts: int = 3
    max_runtime: float = 40.0
    timeout: float = 20.0
    first_ms: int = 500

    @property
    def upstream(self) -> dict[str, Any]:
        """The block of its job type."""
        headers = {"Idempotency-Key": "dispatch_key", "Authorization": "'Bearer ' + account.credential"}
        said = {
            "running": "response.body.status == 'running'",
            "success": "response.body.status == 'done'",
            "failed": "response.body.status in ['failed', 'cancelled']",
            "units": "response.body.units",
        }
        submit = {
            **{"path": f"'/run/{self.name}'", "headers": headers, "idempotent": self.deduplicates},
            **{"timeout": f"{self.timeout}s", "units": "response.body.units"},
        }
        block: dict[str, Any] = {"mode": self.mode, "submit": submit}
        if self.mode == "poll":
            submit["reference"] = "response.body.id"
            block["poll"] = {"path": "'/jobs/' + reference", "every": "2s", "timeout": "5s", **said}
        else:
            submit["failed"] = "response.status == 200 && response.body.status in ['failed', 'cancelled']"
        if self.finds:
            block["find"] = {
                "path": "'/find/' + dispatch_key",
                "timeout": "5s",
                "reference": "response.body.id",
                **said,
            }
        if self.cancels:
            block["cancel"] = {
                **{"path": "'/cancel/' + dispatch_key", "timeout": "5s"},
                "success": "response.status == 200 && response.body.status == 'cancelled'",
            }
        return block


@dataclass(frozen=True)
class Act:
    """What a tenant's program does: submits under a key, `twice` at once, or cancels what that key made."""

    at: float
    what: str
    tenant: int
    key: str
    kind: str = ""
    deadline: float | None = None
    run_at: float | None = None  # virtual time
    twice: bool = False


@dataclass
class Plan:
    """Probabilities are of one message, one exchange, or one step of a task."""

    seed: int
    calm: bool = False  # nothing fails, and hints alone must bring every job to its end
    fine: bool = False
    workers: int = 2
    accounts: int = 1
    sessions: int = 1
    cooldown_ms: int = 0
    caps: list[int | None] = field(default_factory=lambda: [None])
    credits: list[int | None] = field(default_factory=lambda: [1_000])  # None: not billed
    kinds: list[Kind] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    late_seconds: float = 1.0
    crash: float = 0.0
    crashes: int = 0
    pauses: int = 0
    outages: int = 0
    refused: float = 0.0
    cut_before: float = 0.0
    cut_after: float = 0.0
    busy: float = 0.0
    unavailable: float = 0.0
    rejected: float = 0.0
    error: float = 0.0
    gateway: float = 0.0
    fails: float = 0.0
    long: float = 0.0
    alike: bool = False  # what begins together ends together
    slow_steps: float = 0.0
    stalls: int = 0  # for longer than a lease, between the intent and its call
    crowds: bool = False  # several may wait for one lock: whom the server then lets on first, no seed decides


def of_seed(seed: int) -> Plan:
    """The plan of a seed; the same each time."""
    draw = random.Random(f"plan {seed}")
    calm = draw.random() < 0.2
    plan = Plan(seed, calm=calm, fine=draw.random() < (0.7 if calm else 0.4), workers=draw.choice([1, 2, 2, 3]))
    plan.accounts, plan.sessions = draw.choice([(1, 1), (1, 1), (1, 2), (2, 1), (1, 3)])
    plan.cooldown_ms = draw.choice([0, 0, 0, 300])
    tenants = draw.choice([1, 1, 2])
    plan.caps = [draw.choice([None, None, 1, 2]) for _ in range(tenants)]
    plan.credits = [draw.choice([1_000, 1_000, None, 35]) for _ in range(tenants)]
    plan.kinds = [_kind(draw, f"k{number}", calm) for number in range(draw.choice([1, 1, 2]))]
    plan.acts = _acts(draw, plan, tenants)
    plan.alike = draw.random() < 0.4
    if not calm:
        _fail(draw, plan)
    plan.crowds = draw.random() < 0.1
    plan.stalls = 0 if calm or draw.random() < 0.85 else 2
    return plan


def _kind(draw: random.Random, name: str, calm: bool) -> Kind:
    if calm:
        return Kind(name)
    mode = draw.choice(["sync", "sync", "poll"])
    deduplicates = draw.random() < 0.4
    return Kind(
        name,
        mode=mode,
        deduplicates=deduplicates,
        finds=draw.random() < 0.4,
        cancels=draw.random() < 0.5,
        delivery=draw.choice(["at_most_once", "at_most_once", "at_least_once"]),
        attempts=draw.choice([1, 2, 3]),
        max_runtime=draw.choice([25.0, 40.0]),
        timeout=draw.choice([5.0, 20.0]),
    )


def _acts(draw: random.Random, plan: Plan, tenants: int) -> list[Act]:
    acts, at = [], 0.0
    together = draw.uniform(1, 5) if draw.random() < 0.25 else None  # when some of the jobs come due at once
    # A calm burst is long enough to leave a session idle where a hint is missing.
    for number in range(draw.randint(5, 9) if plan.calm else draw.randint(3, 7)):
        at += draw.choice([0.0, 0.0, 0.001, 0.01, 0.0 if plan.calm else draw.uniform(0, 3)])
        tenant, key = draw.randrange(tenants), f"key-{number:012}"
        kind = draw.choice(plan.kinds).name
        deadline = draw.choice([None, None, None, draw.uniform(0.5, 4)])
        run_at = together if together and draw.random() < 0.7 else None
        acts.append(Act(at, "submit", tenant, key, kind, deadline, run_at, twice=draw.random() < 0.15))
        if draw.random() < 0.3:
            acts.append(
                Act(at + draw.choice([0.002, 0.02, draw.uniform(0, 1), draw.uniform(0, 20)]), "cancel", tenant, key)
            )
    return acts


def _fail(draw: random.Random, plan: Plan) -> None:
    """Some kinds of faults each, so that a run has time to go deep into what follows from them."""
    for names in _TOGETHER:
        if draw.random() < 0.4:
            often = draw.choice([0.05, 0.15, 0.4])
            for name in names:
                setattr(plan, name, often * draw.uniform(0.3, 1))
    plan.lost = draw.choice([plan.lost, plan.lost, plan.lost, 1.0])
    plan.doubled = draw.choice([plan.doubled, 0.1, 0.6])
    plan.late_seconds = draw.choice([0.05, 1.0, 8.0])
    if draw.random() < 0.4:
        plan.crashes, plan.crash = draw.choice([1, 2, 5]), draw.choice([0.003, 0.01, 0.03])
    if draw.random() < 0.4:
        plan.pauses = draw.choice([1, 3, 6])
        plan.unavailable = max(plan.unavailable, 0.1)  # a refusal that is read too late speaks of another sending
    if draw.random() < 0.2:
        plan.outages = draw.choice([1, 2])
    plan.long = draw.choice([0.0, 0.1, 0.4])
    plan.slow_steps = draw.choice([0.0, 0.0, 0.02, 0.1, 0.2])


_TOGETHER = (
    ("lost", "doubled", "late"),
    ("refused", "cut_before", "cut_after"),
    ("busy", "unavailable", "rejected"),
    ("error", "gateway", "fails"),
)
