"""What the OpenAPI file says of each operation: parameters, answers with their headers, problems."""

from collections.abc import Callable
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, PolymorphicProxySerializer, extend_schema

from jobs.api import documents as d
from jobs.api import pages

PROBLEM = "application/problem+json"
# By status, the codes of which a call lists those that it can answer.
_PROBLEMS = {
    400: ("malformed", "idempotency-key-missing", "idempotency-key-invalid"),
    401: ("unauthenticated",),
    402: ("insufficient-credits",),
    403: ("forbidden-scope",),
    404: ("not-found",),
    409: ("request-in-progress", "job-failed", "not-replayable", "file-in-use"),
    410: ("gone",),
    412: ("version-changed",),
    413: ("payload-too-large",),
    422: ("validation", "idempotency-key-reused", "price-exceeds-max"),
    429: ("quota-exceeded",),
    500: ("internal",),
    503: ("temporary-reduced-capacity",),
}
_OF_ALL = ("internal", "temporary-reduced-capacity")
_OF_TENANTS = ("unauthenticated", "forbidden-scope", "validation")


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The bearer key as a security scheme."""

    target_class = "jobs.api.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:  # noqa: ARG002  the signature is the library's
        return {"type": "http", "scheme": "bearer", "description": "A key made by `manage.py issue_key`."}


def _header(name: str, description: str, *statuses: str, request: bool = False) -> OpenApiParameter:
    return OpenApiParameter(name, str, "header", description=description, response=False if request else list(statuses))


def _query(name: str, kind: Any, description: str, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, kind, "query", description=description, **more)


def _operation(
    summary: str,
    answers: dict[Any, Any],
    problems: tuple[str, ...] = (),
    parameters: tuple[OpenApiParameter, ...] = (),
    body: Any = None,
    **more: Any,
) -> Callable[[Any], Any]:
    responses: dict[Any, Any] = dict(answers)
    listed = {*_OF_ALL, *problems, *(() if more.get("auth") == [] else _OF_TENANTS)}
    for status, codes in _PROBLEMS.items():
        if told := [code for code in codes if code in listed]:
            responses[(status, PROBLEM)] = OpenApiResponse(d.Problem, description=", ".join(told))
    return extend_schema(
        summary=summary, request=body, responses=responses, parameters=[_REQUEST_ID, *parameters], tags=["v1"], **more
    )


def _says(document: Any, description: str) -> OpenApiResponse:
    return OpenApiResponse(document, description=description)


_REQUEST_ID = OpenApiParameter("X-Request-Id", str, "header", description="Echoed, or made.", response=True)
_RETRY = _header("Retry-After", "Seconds until asking again is worth it.", "202")
_RETRY_OR_LATER = _header("Retry-After", "Seconds until asking again, or the same submit, is worth it.", "202", "429")
_TAG = _header("ETag", "The job's version.", "200", "202")
_JOB = OpenApiParameter("job", str, "path", description="The job's id.")
_KEY_SENT = _header(
    "Idempotency-Key",
    "16 to 128 characters of [A-Za-z0-9_.:-], bare or quoted. Absent: one is made and returned in this header. Kept as long as "
    "its job, which is not deleted: the same key with the same body gives that job, however late; with another body 422.",
    request=True,
)
_KEY_BACK = _header("Idempotency-Key", "The key of this submit.", "202")
_REPLAYED = _header("Idempotency-Replayed", "true: the key was known, this is its job as it stands.", "200", "202")
_LOCATION = _header("Location", "Where the job is.", "202")
_JOB_OR_QUOTE = PolymorphicProxySerializer(
    component_name="JobOrQuote", serializers=[d.JobDocument, d.PriceQuote], resource_type_field_name=None
)

submit = _operation(
    "Submit a job",
    {
        202: _says(d.JobDocument, "Accepted: priced, held and queued."),
        200: _says(_JOB_OR_QUOTE, "The key's job has ended already; with validate_only: the price."),
    },
    (
        *("malformed", "idempotency-key-missing", "idempotency-key-invalid", "insufficient-credits", "request-in-progress"),
        *("payload-too-large", "idempotency-key-reused", "price-exceeds-max", "quota-exceeded"),
    ),
    (
        _query("validate_only", bool, "Only check and price, and say if it would be accepted now; nothing is stored."),
        _KEY_SENT, _KEY_BACK, _REPLAYED, _LOCATION, _RETRY_OR_LATER, _TAG,
    ),
    d.Submission,
    operation_id="submit_job",
)  # fmt: skip
listing = _operation(
    "List jobs, newest first",
    {200: d.JobPage},
    ("malformed",),
    (
        _query("state", str, "Only jobs in this state.", enum=d.STATES),
        _query("type", str, "Only jobs of this type."),
        _query("created_after", {"type": "string", "format": "date-time"}, "Only jobs made after this time."),
        _query(
            "limit", {"type": "integer", "minimum": 1, "maximum": pages.LARGEST_PAGE}, "Jobs in a page; 20 if absent."
        ),
        _query("cursor", str, "next_cursor of the page before; the filters must be the same."),
        _header("Link", "rel=next: the next page.", "200"),
    ),
    operation_id="list_jobs",
)
detail = _operation(
    "Ask for a job",
    {200: d.JobDocument, 304: _says(None, "The version is still the one in If-None-Match.")},
    ("not-found",),
    (
        _JOB,
        _query(
            "wait",
            {"type": "number", "minimum": 0},
            "Seconds; more than 30 are 30. The answer comes as soon as the job has ended or has a version above `after`, and "
            "when the time is over, with the job as it stands. While 200 requests with one key wait, no more do.",
        ),
        _query(
            "after", {"type": "integer", "minimum": 0}, "Wait until the version is higher; absent: until it has ended."
        ),
        _header("If-None-Match", "An ETag of before.", request=True),
        _header("Retry-After", "Seconds until asking again is worth it; absent when the job has ended.", "200", "304"),
        _header("ETag", "The job's version.", "200", "304"),
    ),
    operation_id="get_job",
)
result = _operation(
    "Fetch the result",
    {
        (200, "application/json"): _says(OpenApiTypes.ANY, "The result."),
        (200, "*/*"): _says(OpenApiTypes.BINARY, "A result that is a file, as its own type."),
        202: _says(d.JobDocument, "Not finished yet."),
    },
    ("not-found", "job-failed", "gone"),
    (_JOB, _RETRY, _TAG),
    operation_id="get_job_result",
)
cancel = _operation(
    "Cancel a job",
    {
        200: _says(d.JobDocument, "Cancelled now, or it had ended already."),
        202: _says(d.JobDocument, "Asked for: the upstream was called already, its end decides."),
    },
    ("not-found",),
    (_JOB, _RETRY, _TAG),
    operation_id="cancel_job",
)
callback = _operation(
    "News of an attempt, told by its upstream",
    {204: OpenApiResponse(description="Taken; told twice it changes nothing.")},
    ("malformed", "not-found"),
    (
        OpenApiParameter("attempt", str, "path", description="The dispatch key that the attempt was sent with."),
        OpenApiParameter("token", str, "path", description="Of the address that the attempt was sent with."),
    ),
    body=OpenApiTypes.OBJECT,
    auth=[],
    operation_id="upstream_callback",
)
moves = _operation("History of a job", {200: d.Moves}, ("not-found",), (_JOB,), operation_id="list_job_moves")
replay = _operation(
    "Run a failed or cancelled job again",
    {202: _says(d.JobDocument, "A new run has begun: held anew, queued; history and attempt numbers go on.")},
    ("malformed", "insufficient-credits", "not-found", "not-replayable", "version-changed", "quota-exceeded"),
    (
        _JOB,
        _header("If-Match", "An ETag: run it again only while it is still so.", request=True),
        _RETRY_OR_LATER,
        _TAG,
    ),
    operation_id="replay_job",
)
attempts = _operation("Tries of a job", {200: d.Attempts}, ("not-found",), (_JOB,), operation_id="list_job_attempts")
_FILE = OpenApiParameter("file", str, "path", description="The file's id.")
_BYTES = {
    (200, "application/octet-stream"): OpenApiResponse(
        OpenApiTypes.BINARY, "Its bytes, as the type it was stored with."
    )
}
send_file = _operation(
    "Send a file",
    {201: _says(d.FileDocument, 'Stored. A payload refers to it as {"file": id}.')},
    ("malformed", "payload-too-large", "quota-exceeded"),
    (
        _query("name", str, "What it is called; of a form, else the name that stands there."),
        _header("Location", "Where the file is.", "201"),
    ),
    {
        "application/octet-stream": OpenApiTypes.BINARY,
        "multipart/form-data": {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}},
    },
    operation_id="send_file",
)
list_files = _operation(
    "List files, newest first, and what they take",
    {200: d.FilePage},
    ("malformed",),
    (
        _query("kind", str, "Only files of this kind.", enum=d.KINDS),
        _query(
            "limit", {"type": "integer", "minimum": 1, "maximum": pages.LARGEST_PAGE}, "Files in a page; 20 if absent."
        ),
        _query("cursor", str, "next_cursor of the page before; the filters must be the same."),
        _header("Link", "rel=next: the next page.", "200"),
    ),
    operation_id="list_files",
)
get_file = _operation(
    "What is known of a file", {200: d.FileDocument}, ("not-found", "gone"), (_FILE,), operation_id="get_file"
)
get_file_content = _operation(
    "Fetch a file",
    _BYTES,
    ("not-found", "gone"),
    (_FILE, _query("token", str, "Stands for a key in the addresses that upstreams are given.")),
    operation_id="get_file_content",
)
delete_file = _operation(
    "Delete a file",
    {204: _says(None, "Deleted.")},
    ("not-found", "file-in-use", "gone"),
    (_FILE,),
    operation_id="delete_file",
)
balance = _operation("Credits of the tenant", {200: d.BalanceDocument}, operation_id="get_balance")
job_types = _operation("What may be submitted", {200: d.JobTypeList}, operation_id="list_job_types")
pools = _operation("How full the pools are", {200: d.PoolList}, operation_id="list_pools")
