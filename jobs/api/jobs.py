"""Jobs over HTTP: submit, ask, list, cancel, and look at what happened. Views translate; the domain decides."""

import secrets
from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from rest_framework.request import Request

from credits import limits
from credits.pricing import decimal_text
from files import reading as stored
from files.errors import FileGone, NoSuchFile
from jobs import admission, transitions
from jobs.api import bodies, pages, schemas, submission
from jobs.api.account import wallet_of
from jobs.api.answers import PRIVATE, ApiView, answer, job_document, job_documents, job_id, retry_after
from jobs.api.files import serve
from jobs.api.refusals import IdempotencyKeyMissing, InvalidFields, JobFailed, NotFound, problem_of
from jobs.queries import reading
from jobs.results import file_of
from jobs.states import JOB
from jobs.verdicts import for_tenants
from statemachine.actors import acting_as
from statemachine.sql import Row
from tenants.models import Tenant

READ, WRITE = "jobs:read", "jobs:write"
SUBMIT_ROUTE = "/v1/jobs"


class Jobs(ApiView):
    """The collection: submit and list."""

    scopes = {"GET": READ, "POST": WRITE}

    @schemas.submit
    def post(self, request: Request) -> HttpResponse:
        asked = pages.read_query(request.GET, {"validate_only": pages.a_flag})
        body = bodies.json_object(request._request)
        if asked.get("validate_only"):
            return self._quote(body)
        sent = bodies.idempotency_key(request._request)
        if sent is None and self.tenant.require_idempotency_key:
            raise IdempotencyKeyMissing("this tenant wants an Idempotency-Key on every submit")
        key = sent or f"auto-{secrets.token_hex(16)}"
        job, replayed = _submit(self.tenant, body, key)
        row = _row(reading.submitted(self.tenant.pk, job.pk))
        headers = {"Location": f"/v1/jobs/{job.pk}", "Idempotency-Key": key, **retry_after(row), **_tag(row)}
        if replayed:
            headers["Idempotency-Replayed"] = "true"
        return answer(job_document(row), 200 if row["state"] in JOB.terminal else 202, headers)

    @schemas.listing
    def get(self, request: Request) -> HttpResponse:
        readers: pages.Readers = {
            "state": pages.a_state,
            "type": pages.a_name,
            "created_after": pages.a_time,
            "limit": pages.a_page_size,
            "cursor": str,
        }
        filters = pages.read_query(request.GET, readers)
        limit = filters.pop("limit", pages.DEFAULT_PAGE)
        cursor = filters.pop("cursor", "")
        before = pages.place_of(cursor, self.tenant.pk, filters) if cursor else None
        rows = reading.jobs(self.tenant.pk, filters, before, limit + 1)
        following = pages.cursor_after(rows[limit - 1]["id"], self.tenant.pk, filters) if len(rows) > limit else None
        headers = pages.link_to_next(SUBMIT_ROUTE, request.GET, following)
        return answer({"data": job_documents(rows[:limit]), "next_cursor": following}, headers=headers)

    def _quote(self, body: dict[str, Any]) -> HttpResponse:
        quoted = admission.quote(self.tenant, submission.parse(body))
        free = self.tenant.billing == Tenant.Billing.NONE
        price = 0 if free else quoted.price
        why = None if free else limits.why_not(self.tenant.pk, price)
        return answer({
            "type": quoted.type.name, "price": decimal_text(price), "price_version": quoted.type.version,
            "available": decimal_text(wallet_of(self.tenant).available),
            "accepted": why is None, "reason": why and problem_of(why),
        })  # fmt: skip


class JobDetail(ApiView):
    """One job as it stands; with `wait` the answer comes when it has ended, or changed, or the time is over."""

    # The waiting is done by the live process, which asks this view; without it a client is answered at once, and asks again.

    scopes = {"GET": READ}

    @schemas.detail
    def get(self, request: Request, job: str) -> HttpResponse:
        pages.read_query(request.GET, {"wait": pages.a_wait, "after": pages.a_version})
        row = _row(reading.job(self.tenant.pk, job_id(job)))
        headers = {"Cache-Control": "private, no-cache", **_tag(row), **retry_after(row)}
        seen = [tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")]
        if headers["ETag"] in seen or "*" in seen:
            return HttpResponse(status=304, headers=headers)
        return answer(job_document(row), headers=headers)


class JobResult(ApiView):
    """The result itself, however large; one that is a file as its own type."""

    scopes = {"GET": READ}

    @schemas.result
    def get(self, request: Request, job: str) -> HttpResponseBase:
        pages.read_query(request.GET, {})
        row = _row(reading.result(self.tenant.pk, job_id(job)))
        if row["state"] not in JOB.terminal:
            return answer(job_document(row), 202, {**retry_after(row), **_tag(row)})
        if row["state"] != "completed":
            raise JobFailed(row["state"], row["error"])
        if file_id := file_of(row["result"]):
            return _result_file(self.tenant, file_id, _tag(row))
        return answer(row["result"], headers={"Cache-Control": PRIVATE, **_tag(row)})


class JobCancel(ApiView):
    """Asks for the end of a job. Too late is no error."""

    scopes = {"POST": WRITE}

    @schemas.cancel
    def post(self, request: Request, job: str) -> HttpResponse:
        pages.read_query(request.GET, {})
        row = _cancel(self.tenant, job_id(job))
        ended = row["state"] in JOB.terminal
        return answer(job_document(row), 200 if ended else 202, {**_tag(row), **retry_after(row)})


class JobReplay(ApiView):
    """Runs a failed or cancelled job again, held anew. With If-Match only while its version is still the one seen."""

    scopes = {"POST": WRITE}

    @schemas.replay
    def post(self, request: Request, job: str) -> HttpResponse:
        pages.read_query(request.GET, {})
        wanted = job_id(job)
        seen = pages.a_tag(request.headers.get("If-Match"))
        _row(reading.job(self.tenant.pk, wanted))
        with acting_as(f"tenant:{self.tenant.name}"):
            transitions.replay(wanted, seen)
        row = _row(reading.job(self.tenant.pk, wanted))
        return answer(job_document(row), 202, {**_tag(row), **retry_after(row)})


class JobMoves(ApiView):
    """The history of a job. Of who acted, a tenant sees itself, an operator, or Berth."""

    scopes = {"GET": READ}

    @schemas.moves
    def get(self, request: Request, job: str) -> HttpResponse:
        pages.read_query(request.GET, {})
        rows = reading.moves(self.tenant.pk, job_id(job))
        if not rows:
            raise NotFound
        return answer({"data": [
            {"from": row["from_state"] or None, "to": row["to_state"], "cause": row["cause"],
             "actor": _actor(row["actor"]), "at": row["at"]}
            for row in rows
        ]})  # fmt: skip


class JobAttempts(ApiView):
    """The tries of a job, without the upstream's ids, accounts or costs."""

    scopes = {"GET": READ}

    @schemas.attempts
    def get(self, request: Request, job: str) -> HttpResponse:
        pages.read_query(request.GET, {})
        wanted = job_id(job)
        rows = reading.attempts(self.tenant.pk, wanted)
        if not rows and not reading.exists(self.tenant.pk, wanted):
            raise NotFound
        return answer({"data": [_attempt(row) for row in rows]})


def _submit(tenant: Tenant, body: dict[str, Any], key: str) -> tuple[Any, bool]:
    """A repeat is answered from its job even when the same body would no longer pass, e.g. after its deadline."""
    print_ = bodies.fingerprint("POST", SUBMIT_ROUTE, body)
    try:
        request = submission.parse(body)
    except InvalidFields:
        if known := admission.known(tenant, key, print_):
            return known, True
        raise
    with acting_as(f"tenant:{tenant.name}"):
        return admission.submit(tenant, request, key, print_)


def _result_file(tenant: Tenant, file_id: UUID, headers: dict[str, str]) -> HttpResponseBase:
    """Never a dead link: what is not kept any more is said to be gone."""
    try:
        return serve(stored.of_tenant(tenant.pk, file_id), headers)
    except NoSuchFile as error:
        raise FileGone(file_id) from error


def _cancel(tenant: Tenant, wanted: UUID) -> Row:
    row = _row(reading.job(tenant.pk, wanted))
    if row["state"] in JOB.terminal or row["cancel_requested_at"] is not None:
        return row
    with acting_as(f"tenant:{tenant.name}"):
        transitions.cancel(wanted)
    return _row(reading.job(tenant.pk, wanted))


def _row(found: Row | None) -> Row:
    if found is None:
        raise NotFound
    return found


def _tag(row: Row) -> dict[str, str]:
    return {"ETag": f'"{row["version"]}"'}


def _actor(name: str) -> str:
    kind = name.partition(":")[0]
    return {"tenant": "tenant", "admin": "operator", "shell": "operator", "operator": "operator"}.get(kind, "berth")


def _attempt(row: Row) -> dict[str, Any]:
    error = None
    if row["error_code"]:
        code, message = for_tenants(row["error_code"], row["error_message"], row["error_class"])
        error = {"code": code, "message": message}
    shown = ("number", "run", "phase", "opened_at", "called_at", "ended_at")
    return {**{name: row[name] for name in shown}, "verdict": row["verdict"] or None, "error": error}
