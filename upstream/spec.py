"""The `upstream` block of the configuration, compiled: each expression once, each mistake named by its field."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from upstream.expressions import (
    RESPONSE_NAMES,
    SUBMIT_NAMES,
    Expression,
    ExpressionError,
    compile_expression,
    compile_path,
)
from upstream.quantities import duration_ms

DEFAULT_TIMEOUT_MS: Final = 60_000
MAX_TIMEOUT_MS: Final = 24 * 3_600_000
SUBMIT_FIELDS: Final = frozenset(
    {"method", "path", "headers", "idempotent", "body", "timeout", "success", "partial", "failed", "exists", "rejected"}
    | {"busy", "auth", "not_executed", "result", "units", "cost", "error", "reference"}
)
_MEANINGS = (
    "success",
    "partial",
    "failed",
    "exists",
    "rejected",
    "busy",
    "auth",
    "not_executed",
    "result",
    "units",
    "cost",
)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_WITHOUT_BODY = frozenset({"GET", "DELETE"})
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# They frame the message on the wire; a wrong one would let one call swallow the next.
_FRAMING = frozenset({"content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect"})


class SpecError(ValueError):
    """A mistake in an `upstream` block; `field` says where, as in `submit.path`."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


@dataclass(frozen=True, slots=True)
class Sending:
    """How a request is made."""

    method: str
    path: Expression
    headers: tuple[tuple[str, Expression], ...]
    body: Expression | None  # None: sent without a body
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Submit(Sending):
    """How work is started, and what its answer means. None: the default of mapping.py."""

    mode: str
    idempotent: bool
    success: Expression | None
    partial: Expression | None
    failed: Expression | None
    exists: Expression | None  # the upstream has this dispatch key already
    rejected: Expression | None
    busy: Expression | None
    auth: Expression | None  # the account's fault: its credential, or its credits
    not_executed: Expression | None
    result: Expression | None
    units: Expression | None
    cost: Expression | None
    error: Expression | None
    reference: Expression | None


def compile_submit(upstream: Mapping[str, Any]) -> Submit:
    """The compiled `submit` of a merged `upstream` block; compiled once per content. Raises SpecError."""
    return _compiled(content_key(upstream.get("mode") or "sync", upstream.get("headers"), upstream.get("submit")))


def content_key(*content: Any) -> str:
    """The content as one text, the same for the same, so that each is compiled once. Raises SpecError."""
    try:
        return json.dumps(content, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise SpecError("upstream", f"cannot be written as JSON: {error}") from None


@lru_cache(maxsize=1024)
def _compiled(key: str) -> Submit:
    mode, common_headers, submit = json.loads(key)
    if mode not in ("sync", "poll", "callback", "lease"):
        raise SpecError("mode", f"{mode!r} is none of sync, poll, callback, lease")
    if not isinstance(submit, dict):
        raise SpecError("submit", "is required: it says how a job is sent, at least its path")
    only_known("submit", submit, SUBMIT_FIELDS)
    answer: dict[str, Any] = {
        name: optional("submit", submit, name, RESPONSE_NAMES) for name in (*_MEANINGS, "error", "reference")
    }
    made = sending("submit", submit, common_headers, SUBMIT_NAMES, method="POST", body="payload")
    return Submit(**made, mode=mode, idempotent=flag("submit", submit, "idempotent"), **answer)


def only_known(at: str, block: Mapping[str, Any], fields: frozenset[str]) -> None:
    """Raises SpecError for a field that is none of these."""
    if unknown := sorted(set(block) - fields):
        raise SpecError(f"{at}.{unknown[0]}", f"is not known; known are {', '.join(sorted(fields))}")


def sending(
    at: str,
    block: Mapping[str, Any],
    common_headers: Any,
    names: frozenset[str],
    *,
    method: str,
    body: str | None = None,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> dict[str, Any]:
    """The fields of a Sending from the block `at`; `method`, `body` and `timeout_ms` are what is usual. Raises SpecError."""
    verb = _method(at, block, method)
    return {
        "method": verb,
        "path": _path(at, block, names),
        "headers": _headers(("headers", common_headers), (f"{at}.headers", block.get("headers")), names=names),
        "body": optional(at, {"body": None if verb in _WITHOUT_BODY else body, **block}, "body", names),
        "timeout_ms": _timeout_ms(at, block, timeout_ms),
    }


def optional(at: str, block: Mapping[str, Any], name: str, names: frozenset[str]) -> Expression | None:
    """The compiled expression of a field that may be left out. Raises SpecError."""
    return None if block.get(name) is None else _expression(f"{at}.{name}", block[name], names)


def flag(at: str, block: Mapping[str, Any], name: str, usual: bool = False) -> bool:
    """Raises SpecError for what is neither true nor false; null is as left out."""
    value = block.get(name)
    if not isinstance(value, bool | None):
        raise SpecError(f"{at}.{name}", f"is true or false, not {value!r}")
    return usual if value is None else value


def _method(at: str, block: Mapping[str, Any], usual: str) -> str:
    method = block.get("method") or usual
    if not isinstance(method, str) or method.upper() not in _METHODS:
        raise SpecError(f"{at}.method", f"{method!r} is none of {', '.join(sorted(_METHODS))}")
    return method.upper()


def _path(at: str, block: Mapping[str, Any], names: frozenset[str]) -> Expression:
    if block.get("path") is None:
        raise SpecError(f"{at}.path", "is required, an expression such as \"'/run'\"")
    try:
        return compile_path(block["path"], names)
    except ExpressionError as error:
        raise SpecError(f"{at}.path", str(error)) from None


def _headers(*blocks: tuple[str, Any], names: frozenset[str]) -> tuple[tuple[str, Expression], ...]:
    """Later blocks win, whatever the case of the name; a header set to null is not sent."""
    merged: dict[str, tuple[str, str, Any]] = {}
    for field, block in blocks:
        if block is None:
            continue
        if not isinstance(block, dict):
            raise SpecError(field, "is a map of header names to expressions")
        for name, source in block.items():
            if not _HEADER_NAME.fullmatch(name) or name.lower() in _FRAMING:
                raise SpecError(f"{field}.{name}", "is not a header that may be set")
            merged.pop(name.lower(), None)
            if source is not None:
                merged[name.lower()] = (f"{field}.{name}", name, source)
    return tuple((name, _expression(field, source, names)) for field, name, source in merged.values())


def _timeout_ms(at: str, block: Mapping[str, Any], usual_ms: int) -> int:
    if block.get("timeout") is None:
        return usual_ms
    try:
        timeout = duration_ms(block["timeout"])
    except ValueError as error:
        raise SpecError(f"{at}.timeout", str(error)) from None
    if not 0 < timeout <= MAX_TIMEOUT_MS:
        raise SpecError(f"{at}.timeout", "must be more than 0 and at most 24h")
    return timeout


def _expression(field: str, source: Any, allowed: frozenset[str]) -> Expression:
    try:
        return compile_expression(source, allowed)
    except ExpressionError as error:
        raise SpecError(field, str(error)) from None
