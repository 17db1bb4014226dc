"""From a compiled spec and a call to the request that is sent. Nothing is sent when any of it cannot be built."""

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from yarl import URL

from upstream.calls import Call
from upstream.expressions import ExpressionError, Scope
from upstream.spec import Sending

_UNSAFE_IN_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_KEPT_IN_PATH = "!$%&'()*+,/:;=?@[]~"
_DOTS = re.compile(r"(?:^|/)(?:\.|%2e){1,2}(?:$|[/?])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: URL
    headers: dict[str, str]
    body: bytes | None
    timeout_ms: int


def scope_of(call: Call) -> Scope:
    return Scope(
        {
            "payload": call.payload,
            "job": call.job,
            "tenant": call.tenant,
            "account": call.account,
            "dispatch_key": call.key,
            "callback_url": call.callback_url,
            "reference": call.reference,
        }
    )


def build_request(sent: Sending, call: Call, scope: Scope) -> Request:
    """Raises ExpressionError, also for what an expression gave that cannot be sent."""
    headers: dict[str, str] = {}
    body = None
    if sent.body is not None:
        headers["Content-Type"] = "application/json"
        body = _json(sent.body.evaluate(scope))
    for name, expression in sent.headers:
        value = _header(name, expression.evaluate(scope))
        if value is not None:
            if name.lower() == "content-type":
                headers.pop("Content-Type", None)
            headers[name] = value
    return Request(sent.method, _url(call.base_url, sent.path.evaluate(scope)), headers, body, sent.timeout_ms)


def _url(base_url: str, path: Any) -> URL:
    if not isinstance(path, str):
        raise ExpressionError("the path is not a text")
    # A part of one or two dots would be resolved away and reach another address than the one that was declared.
    if _DOTS.search(path) or "#" in path or "\\" in path or not path.isprintable():
        raise ExpressionError("the path has a part that cannot be sent")
    try:
        base = URL(base_url)
        # What is encoded stays so, to the letter; only what no address may hold is encoded here.
        url = URL(f"{str(base).rstrip('/')}/{quote(path.removeprefix('/'), safe=_KEPT_IN_PATH)}", encoded=True)
    except (ValueError, TypeError):
        raise ExpressionError("base_url and path give no valid address") from None
    if base.scheme not in ("http", "https") or not base.host:
        raise ExpressionError("base_url must begin with http:// or https:// and name a host")
    if base.user or base.password or base.query_string or base.fragment:
        raise ExpressionError("base_url has a user, query or fragment; credentials go into headers, the rest into path")
    return url


def _header(name: str, value: Any) -> str | None:
    """None: the expression gave null, the header is left out."""
    if value is None:
        return None
    if isinstance(value, bool | int | float):
        value = json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)
    if not isinstance(value, str):
        raise ExpressionError(f"the header {name} is not a text")
    if _UNSAFE_IN_HEADER.search(value):
        raise ExpressionError(f"the header {name} has a line break or control character in it")
    if not value.isascii():
        raise ExpressionError(f"the header {name} has a character beyond ASCII in it")
    return value


def _json(value: Any) -> bytes:
    try:
        # Maps come out of CEL in an order of chance, and an upstream that deduplicates may refuse a key with another body.
        return json.dumps(value, separators=(",", ":"), allow_nan=False, sort_keys=True).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ExpressionError(f"the body cannot be written as JSON: {error}") from None
