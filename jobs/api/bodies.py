"""Reading a request body: bounded, strict JSON, and its fingerprint for the idempotency key."""

import hashlib
import json
import math
import re
from typing import Any, NoReturn

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest

from jobs.admission import InvalidField
from jobs.api.refusals import BodyTooLarge, IdempotencyKeyInvalid, InvalidFields, Malformed

API_VERSION = "1"
DEEPEST = 64
_KEY = re.compile(r"[A-Za-z0-9_.:-]{16,128}")


def json_object(request: HttpRequest) -> dict[str, Any]:
    """The body as a JSON object whose values the database can keep.

    Raises BodyTooLarge, Malformed, InvalidFields (not an object, nested too deep, NUL, half a surrogate, infinity).
    """
    body = _parsed(raw_body(request))
    if not isinstance(body, dict):
        raise InvalidFields([InvalidField("", "the body must be a JSON object")])
    _check_values(body)
    return body


def fingerprint(method: str, route: str, body: dict[str, Any]) -> bytes:
    """What makes two requests the same: method, route template, API version and the body as sent, keys in order."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256("\n".join((method, route, API_VERSION, canonical)).encode()).digest()


def idempotency_key(request: HttpRequest) -> str | None:
    """The Idempotency-Key header, bare or as a quoted structured field; None when absent. Raises IdempotencyKeyInvalid."""
    sent = request.headers.get("Idempotency-Key")
    if sent is None:
        return None
    key = sent.strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if not _KEY.fullmatch(key):
        raise IdempotencyKeyInvalid("16 to 128 characters of [A-Za-z0-9_.:-], bare or in double quotes")
    return key


def raw_body(request: HttpRequest) -> bytes:
    """The body as sent. Raises BodyTooLarge."""
    limit = int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0)
    try:
        if int(request.META.get("CONTENT_LENGTH") or 0) > limit:
            raise BodyTooLarge(limit)
        return request.body
    except RequestDataTooBig as error:
        raise BodyTooLarge(limit) from error


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError as error:
        raise InvalidFields([InvalidField("", f"nested deeper than {DEEPEST} levels")]) from error
    except ValueError as error:
        raise Malformed(f"the body is not JSON: {error}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _check_values(body: dict[str, Any]) -> None:
    """Walks without recursion, so that depth cannot exhaust the stack."""
    todo: list[tuple[Any, tuple[str, ...]]] = [(body, ())]
    while todo:
        value, path = todo.pop()
        if isinstance(value, str):
            _check_text(value, path)
        elif isinstance(value, float):
            if not math.isfinite(value):
                _refuse(path, "a number out of range")
        elif isinstance(value, dict | list):
            if len(path) >= DEEPEST:
                _refuse(path, f"nested deeper than {DEEPEST} levels")
            if isinstance(value, list):
                todo.extend((item, (*path, str(place))) for place, item in enumerate(value))
            else:
                for name, item in value.items():
                    _check_text(name, path)
                    todo.append((item, (*path, name)))


def _check_text(text: str, path: tuple[str, ...]) -> None:
    if text.isascii():
        if "\0" in text:
            _refuse(path, "contains a NUL character, which cannot be stored")
        return
    if "\0" in text:
        _refuse(path, "contains a NUL character, which cannot be stored")
    if any("\ud800" <= character <= "\udfff" for character in text):
        _refuse(path, "contains half of a surrogate pair, which is no character")


def _refuse(path: tuple[str, ...], detail: str) -> NoReturn:
    pointer = "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in path)
    raise InvalidFields([InvalidField(pointer.encode("utf-8", "replace").decode().replace("\0", "\ufffd"), detail)])
