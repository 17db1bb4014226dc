"""Files over HTTP: sent, looked at, fetched, deleted. Bytes pass through in pieces, in both directions."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.core.files.uploadhandler import TemporaryFileUploadHandler
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.utils.http import content_disposition_header
from rest_framework.request import Request
from rest_framework.views import APIView

from files import leaving, reading, storing
from files.errors import FileTooLarge
from files.models import File
from jobs import inputs
from jobs.admission import InvalidField
from jobs.api import pages, schemas
from jobs.api.answers import PRIVATE, ApiView, answer, job_id
from jobs.api.authentication import HasScope
from jobs.api.refusals import InvalidFields, Malformed, NotFound
from jobs.queries.inputs import unfinished
from statemachine.sql import Row
from tenants.models import Tenant

READ, WRITE = "jobs:read", "jobs:write"
ROUTE: Final = "/v1/files"
MULTIPART: Final = "multipart/form-data"
FORM_BYTES: Final = 65_536  # around the file of a multipart body
LONGEST_NAME: Final = 255
ANY_BYTES: Final = "application/octet-stream"
_CONTENT_TYPE = re.compile(r"[\w!#$&^.+-]{1,100}/[\w!#$&^.+-]{1,100}( ?; ?[\x20-\x7e]{1,50})?", re.ASCII)


@dataclass(frozen=True)
class Sent:
    """A file as it comes: where its bytes are read from, and what is said of it."""

    source: storing.Readable
    size: int
    name: str
    content_type: str


class Files(ApiView):
    """The collection: a file is sent, as the body itself or as the one file of a form; what is kept is listed."""

    scopes = {"GET": READ, "POST": WRITE}

    @schemas.list_files
    def get(self, request: Request) -> HttpResponse:
        readers: pages.Readers = {"kind": pages.a_kind, "limit": pages.a_page_size, "cursor": str}
        filters = pages.read_query(request.GET, readers)
        limit = filters.pop("limit", pages.DEFAULT_PAGE)
        cursor = filters.pop("cursor", "")
        bound = {**filters, "list": "files"}  # a cursor of the jobs is none of these
        before = pages.place_of(cursor, self.tenant.pk, bound) if cursor else None
        rows = reading.listed(self.tenant.pk, filters.get("kind"), before, limit + 1)
        following = pages.cursor_after(rows[limit - 1]["id"], self.tenant.pk, bound) if len(rows) > limit else None
        used = reading.usage(self.tenant.pk)
        return answer(
            {
                "data": [file_document(row) for row in rows[:limit]],
                "next_cursor": following,
                "usage": {**used, "max_input_bytes": most_bytes(self.tenant)},
            },
            headers=pages.link_to_next(ROUTE, request.GET, following),
        )

    @schemas.send_file
    def post(self, request: Request) -> HttpResponse:
        asked = pages.read_query(request.GET, {"name": a_file_name})
        with _sent(request._request, asked.get("name", ""), self.tenant) as sent:
            if not sent.size:
                raise InvalidFields([InvalidField("", "the file is empty")])
            row = storing.put(
                self.tenant.pk,
                sent.source,
                kind=File.Kind.INPUT,
                size=sent.size,
                name=sent.name,
                content_type=sent.content_type,
                keep_seconds=settings.FILE_TTL_SECONDS,
                most_bytes=most_bytes(self.tenant),
            )
        return answer(file_document(row), 201, {"Location": f"{ROUTE}/{row['id']}"})


class FileDetail(ApiView):
    """One file: what is known of it, and its end."""

    scopes = {"GET": READ, "DELETE": WRITE}
    http_method_names = ["get", "head", "delete"]

    @schemas.get_file
    def get(self, request: Request, file: str) -> HttpResponse:
        pages.read_query(request.GET, {})
        return answer(file_document(reading.of_tenant(self.tenant.pk, job_id(file))))

    @schemas.delete_file
    def delete(self, request: Request, file: str) -> HttpResponse:
        pages.read_query(request.GET, {})
        row = reading.of_tenant(self.tenant.pk, job_id(file))
        leaving.delete_one(self.tenant.pk, row["id"], unfinished)
        leaving.delete([row])
        return HttpResponse(status=204, headers={"Cache-Control": PRIVATE})


class MayRead(HasScope):
    """A key with the scope; or, of this one file and for a time, the address itself."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if request.auth is None and "token" in request.GET:
            try:
                return inputs.may_read(job_id(view.kwargs["file"]), str(request.GET["token"]))
            except NotFound:
                return False
        return super().has_permission(request, view)


class FileContent(ApiView):
    """The bytes of a file."""

    scopes = {"GET": READ}
    permission_classes = [MayRead]

    @schemas.get_file_content
    def get(self, request: Request, file: str) -> HttpResponseBase:
        pages.read_query(request.GET, {"token": str})
        wanted = job_id(file)
        by_key = request.auth is not None
        return serve(reading.of_tenant(self.tenant.pk, wanted) if by_key else reading.by_id(wanted))


def serve(row: Row, headers: dict[str, str] | None = None) -> HttpResponseBase:
    """The bytes of this row of `files.reading`, to be kept by whoever asked: never shown, never run. Raises FileGone."""
    content = reading.open_bytes(row)
    return StreamingHttpResponse(
        reading.Chunks(content),
        content_type=row["content_type"],
        headers={
            "Cache-Control": PRIVATE,
            "Content-Length": str(row["size"]),
            "Content-Disposition": content_disposition_header(True, row["name"] or str(row["id"])) or "attachment",
            "Content-Security-Policy": "sandbox; default-src 'none'",
            "X-Content-Type-Options": "nosniff",
            **(headers or {}),
        },
    )


def file_document(row: Row) -> dict[str, Any]:
    """A file as tenants see it."""
    shown = ("id", "kind", "size", "sha256", "content_type", "name", "created_at", "expires_at")
    return {name: row[name] for name in shown}


def a_file_name(text: str) -> str:
    """What a file is called: no path, nothing that cannot be printed."""
    name = text.replace("\\", "/").rpartition("/")[2].strip()
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise ValueError(f"must have at most {LONGEST_NAME} printable characters")
    return name


def most_bytes(tenant: Tenant) -> int:
    """What the tenant may keep of inputs."""
    return settings.TENANT_FILE_BYTES if tenant.max_file_bytes is None else tenant.max_file_bytes


@contextmanager
def _sent(request: HttpRequest, name: str, tenant: Tenant) -> Iterator[Sent]:
    """Raises FileTooLarge and TenantFull before anything is read, InvalidFields, Malformed."""
    content_type = request.META.get("CONTENT_TYPE", "").strip()
    size = _length(request)
    if content_type.partition(";")[0].strip().lower() != MULTIPART:
        if size > settings.MAX_FILE_BYTES:
            raise FileTooLarge(settings.MAX_FILE_BYTES)
        try:
            yield Sent(request, size, name, _usual(content_type))
        except UnreadablePostError as error:
            raise Malformed("the body ended before it was whole") from error
        return
    if size > settings.MAX_FILE_BYTES + FORM_BYTES:
        raise FileTooLarge(settings.MAX_FILE_BYTES)
    storing.check(tenant.pk, File.Kind.INPUT, size - FORM_BYTES, most_bytes(tenant))
    found = _of_form(request)
    if found.size > settings.MAX_FILE_BYTES:
        raise FileTooLarge(settings.MAX_FILE_BYTES)
    try:
        named = name or a_file_name(found.name or "")
    except ValueError as error:
        raise InvalidFields([InvalidField("/filename", str(error))]) from error
    yield Sent(found, found.size, named, _usual(found.content_type or ""))


def _of_form(request: HttpRequest) -> Any:
    """The one file of a form; its bytes wait on disk."""
    request.upload_handlers = [TemporaryFileUploadHandler(request)]
    try:
        found = [file for name in request.FILES for file in request.FILES.getlist(name)]
    except (MultiPartParserError, SuspiciousOperation, UnreadablePostError) as error:
        raise Malformed("the form could not be read") from error
    if len(found) != 1:
        raise InvalidFields([InvalidField("", f"a form has exactly one file; this one has {len(found)}")])
    return found[0]


def _length(request: HttpRequest) -> int:
    try:
        return int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        return 0


def _usual(content_type: str) -> str:
    """What it says it is, if that can be said again in a header."""
    return content_type if _CONTENT_TYPE.fullmatch(content_type) else ANY_BYTES
