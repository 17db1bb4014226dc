"""What may be submitted: a request is checked, priced by its type's expression and stored, once per idempotency key."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

import jsonschema
import uuid_utils.compat
from django.db import IntegrityError, OperationalError, transaction
from django.db.models.functions import Now

from credits import pricing
from credits.errors import PriceError
from jobs import inputs, transitions
from jobs.models import Job, JobType
from jobs.queries import keys
from jobs.verdicts import DEFAULT_RETRY
from statemachine.crashpoints import crashpoint
from statemachine.sql import load
from tenants.models import Tenant
from upstream.expressions import PRICE_NAMES, TENANT_PRICE_NAMES, ExpressionError, compile_expression


@dataclass(frozen=True)
class Request:
    """A job as asked for. Times in milliseconds, money in micro-credits."""

    type: str
    payload: Any
    priority: int = 0
    run_at: datetime | None = None
    start_deadline_ms: int | None = None
    max_price: int | None = None
    max_attempts: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Quote:
    """What a request would hold and an attempt use of an upstream account, in micro-credits; its weight in the line."""

    type: JobType
    price: int
    weight: float
    cost: int


class InvalidField(Exception):
    """A field of the request is wrong; `pointer` is a JSON pointer to it."""

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(f"{pointer}: {detail}")
        self.pointer, self.detail = pointer, detail


class PriceExceedsMax(Exception):
    """The price is above what the request allows."""

    def __init__(self, price: int, max_price: int) -> None:
        super().__init__(f"the price is {pricing.decimal_text(price)}, max_price {pricing.decimal_text(max_price)}")
        self.price, self.max_price = price, max_price


class PayloadTooLarge(Exception):
    """The payload is larger than the type allows (bytes)."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"the payload has {size} bytes, {limit} are allowed; send what is large to POST /v1/files and refer to it"
        )
        self.size, self.limit = size, limit


class KeyReused(Exception):
    """The idempotency key belongs to a job with another body."""

    def __init__(self, job_id: UUID) -> None:
        super().__init__(f"the key was used for job {job_id} with another body")
        self.job_id = job_id


class RequestInProgress(Exception):
    """A request with the same key has not ended yet."""


def submit(tenant: Tenant, request: Request, key: str, fingerprint: bytes) -> tuple[Job, bool]:
    """Stores the job, or finds the one the key already made (second value True).

    Raises InvalidField, PayloadTooLarge, PriceExceedsMax, KeyReused, RequestInProgress, InsufficientCredits, BudgetExceeded,
    Paced; then nothing is stored.
    """
    if found := known(tenant, key, fingerprint):
        return found, True
    quoted = quote(tenant, request)
    deadline_ms = request.start_deadline_ms or quoted.type.start_deadline_ms
    job = Job(
        id=UUID(str(uuid_utils.compat.uuid7())),
        tenant=tenant,
        type=quoted.type,
        pool_id=quoted.type.pool_id,
        payload=request.payload,
        metadata=dict(request.metadata),
        priority=request.priority,
        weight=quoted.weight,
        due_at=request.run_at,
        start_deadline=Now() + timedelta(milliseconds=deadline_ms) if deadline_ms else None,
        max_attempts=request.max_attempts or int({**DEFAULT_RETRY, **quoted.type.retry}["attempts"]),
        price=quoted.price if tenant.billing == Tenant.Billing.CREDITS else 0,
        cost=quoted.cost,
        price_version=quoted.type.version,
        settle=quoted.type.settle,
        overrun=quoted.type.overrun,
        idempotency_key=key,
        fingerprint=fingerprint,
    )
    crashpoint("submit.parsed")
    with _taken_key(tenant, key, fingerprint) as taken:
        _store(job)
    crashpoint("submit.stored")
    return (taken[0], True) if taken else (job, False)


def quote(tenant: Tenant, request: Request) -> Quote:
    """Checks and prices a request; stores nothing. Raises InvalidField, PayloadTooLarge, PriceExceedsMax."""
    job_type = next(iter(load(JobType, "name = %s", [request.type])), None)
    if job_type is None or (tenant.job_types is not None and request.type not in tenant.job_types):
        raise InvalidField("/type", f"there is no job type {request.type!r} for this tenant")
    if not job_type.accepting:
        raise InvalidField("/type", f"the job type {request.type!r} takes no jobs now")
    if not tenant.accepting:
        raise InvalidField("/type", "this tenant is closed; new jobs are refused")
    if request.priority > tenant.max_priority:
        raise InvalidField("/priority", f"at most {tenant.max_priority} for this tenant")
    if request.max_attempts is not None and request.max_attempts < 1:
        raise InvalidField("/max_attempts", "at least 1")
    size = len(json.dumps(request.payload, separators=(",", ":"), ensure_ascii=False).encode())
    if size > job_type.max_payload_bytes:
        raise PayloadTooLarge(size, job_type.max_payload_bytes)
    check_schema(job_type, request.payload)
    _check_files(inputs.faults(tenant.pk, inputs.references(request.payload)))
    names = _names(tenant, request)
    of_type = _priced(job_type.price, PRICE_NAMES, names)
    own = tenant.prices.get(job_type.name)
    price = _micro(_priced(own, TENANT_PRICE_NAMES, {**names, "price": of_type}) if own else of_type)
    cost = _micro(_priced(job_type.cost, PRICE_NAMES, names, "its cost") if job_type.cost else of_type, "its cost")
    if request.max_price is not None and price > request.max_price:
        raise PriceExceedsMax(price, request.max_price)
    return Quote(job_type, price, _weight(tenant, job_type, request), cost)


def known(tenant: Tenant, key: str, fingerprint: bytes) -> Job | None:
    """The job this key already made, if its request was the same one. Raises KeyReused when it was not."""
    found = keys.job_of_key(tenant.pk, key)
    if found is None:
        return None
    if bytes(found["fingerprint"]) != fingerprint:
        raise KeyReused(found["id"])
    return Job.objects.select_related("type", "pool").get(pk=found["id"])


@contextmanager
def _taken_key(tenant: Tenant, key: str, fingerprint: bytes) -> Iterator[list[Job]]:
    """Two requests with one key at once: the unique index lets one through; the other is given its job."""
    taken: list[Job] = []
    try:
        yield taken
    except IntegrityError as error:
        if "one_job_per_key" not in str(error) or (job := known(tenant, key, fingerprint)) is None:
            raise
        taken.append(job)
    except OperationalError as error:
        # Any other lock that is held for so long (a busy wallet) says nothing of this key.
        if "lock timeout" not in str(error) or "jobs_job" not in _context(error):
            raise
        raise RequestInProgress("a request with this key is still running") from error


def _store(job: Job) -> None:
    """One transaction also with the files that it refers to: each is there still when the job is."""
    if not (references := inputs.references(job.payload)):
        transitions.submit(job)
        return
    with transaction.atomic():
        _check_files(inputs.refer(job.tenant_id, job.pk, references))
        crashpoint("submit.referred")
        transitions.submit(job)


def _check_files(faults: list[inputs.Fault]) -> None:
    for pointer, detail in faults:
        raise InvalidField(pointer, detail)


def _context(error: OperationalError) -> str:
    """What PostgreSQL was doing when it gave up."""
    return str(getattr(getattr(error.__cause__, "diag", None), "context", None) or "")


def check_schema(job_type: JobType, payload: Any) -> None:
    """Raises InvalidField for what breaks the type's schema most."""
    if not job_type.payload_schema:
        return
    validator = _validator(json.dumps(job_type.payload_schema, sort_keys=True))
    error = jsonschema.exceptions.best_match(validator.iter_errors(payload))
    if error is not None:
        pointer = "".join(f"/{part}" for part in ("payload", *error.absolute_path))
        raise InvalidField(pointer, error.message[:300])


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    content = json.loads(schema)
    return jsonschema.validators.validator_for(content, default=jsonschema.Draft202012Validator)(content)


def _names(tenant: Tenant, request: Request) -> dict[str, Any]:
    job = {"id": "", "type": request.type, "attempt": 0, "metadata": dict(request.metadata)}
    return {"payload": request.payload, "job": job, "tenant": {"name": tenant.name}}


def _priced(source: str, allowed: frozenset[str], names: dict[str, Any], what: str = "its price") -> Any:
    """What the expression says, in credits. That it says nothing is the payload's fault."""
    try:
        return compile_expression(source, allowed).evaluate(names)
    except ExpressionError as error:
        raise InvalidField("/payload", f"{what} cannot be computed: {error}") from error


def _micro(price: Any, what: str = "its price") -> int:
    """Rounded up, once. An unusable price is the payload's fault."""
    try:
        return pricing.to_micro(price)
    except PriceError as error:
        raise InvalidField("/payload", f"{what} cannot be computed: {error}") from error


def _weight(tenant: Tenant, job_type: JobType, request: Request) -> float:
    """The weight of this job for fairness; what is not a positive number counts as 1."""
    if job_type.weight in ("1", "auto"):
        return 1.0
    try:
        weight = float(job_type.weight)
    except ValueError:
        try:
            weight = float(compile_expression(job_type.weight, PRICE_NAMES).evaluate(_names(tenant, request)))
        except (ExpressionError, TypeError, ValueError) as error:
            raise InvalidField("/payload", f"its weight cannot be computed: {error}") from error
    return weight if 0 < weight < 1e6 else 1.0
