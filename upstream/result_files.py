"""Results that are no JSON, or lie behind links: what an answer carries of them, and where links may lead.

The `result_files` block of a type's upstream: `urls` (CEL: a text, a list of texts, or a map of names to texts), `hosts`
(beside base_url's own), `auth` and `paths` (where on base_url's own host the pool's headers are sent), `max` (bytes of a
file), `timeout` (of one).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from yarl import URL

from upstream.answer import Answer
from upstream.calls import Call, Outcome
from upstream.expressions import FOLLOW_RESPONSE_NAMES, SUBMIT_NAMES, Expression, ExpressionError, Scope
from upstream.quantities import duration_ms, size_bytes
from upstream.request import scope_of
from upstream.spec import Sending, SpecError, optional, sending

DEFAULT_MAX_BYTES: Final = 100_000_000
DEFAULT_TIMEOUT_MS: Final = 60_000
MAX_TIMEOUT_MS: Final = 3_600_000
MOST_LINKS: Final = 50
LONGEST_LINK: Final = 4_000
LONGEST_NAME: Final = 100
MOST_ANSWER_BYTES: Final = 256_000  # of an answer that is kept until what is declared of its links is mended
ALONE: Final = "file"  # the name of a link that is given as a text
UNAVAILABLE: Final = "result_unavailable"
FIELDS: Final = frozenset({"urls", "hosts", "auth", "paths", "max", "timeout"})
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:\d{1,5})?")
_PREFIX = re.compile(r"(?:/[A-Za-z0-9_~.-]+)+/?")
# Two servers may read anything else two ways: what stands for a slash, a dot or nothing, an empty segment, a parameter.
_PLAIN_PATH = re.compile(r"(?:/(?:[A-Za-z0-9_~.!$&'()*+,=:@-]|%20)+)+")
_DOTS: Final = frozenset({".", ".."})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """`request`: the headers that are sent to `paths` of base_url's own host, each of which ends with a slash; to nowhere
    else. `hosts`: a port is the scheme's unless it is said.
    """

    urls: Expression
    hosts: frozenset[str]
    paths: tuple[str, ...]
    max_bytes: int
    timeout_ms: int
    request: Sending


@dataclass(frozen=True, slots=True)
class Address:
    """Where a link leads. `own`: to base_url's own host. `trusted`: to a path there that may see the pool's headers."""

    url: URL
    own: bool
    trusted: bool


class LinkRefused(ValueError):
    """A link leads where nothing may be fetched from, or is none: what is declared and what is answered do not fit."""


class NoLinks(ValueError):
    """The upstream says that there is no file."""


def compile_result_files(upstream: Mapping[str, Any]) -> ResultFiles | None:
    """The compiled block of a merged `upstream`, once per content; None: there is none. Raises SpecError."""
    if upstream.get("result_files") is None:
        return None
    return _compiled(json.dumps([upstream.get("headers"), upstream["result_files"]], sort_keys=True, default=str))


def host(value: Any) -> str:
    """A name of `hosts`. Raises ValueError."""
    if not isinstance(value, str) or not _HOST.fullmatch(value):
        raise ValueError("is the name of a host, with its port where that is another than usual: cdn.example:8443")
    return value.lower()


def path_prefix(value: Any) -> str:
    """One of `paths`, with a slash at its end. Raises ValueError."""
    if not isinstance(value, str) or not _PREFIX.fullmatch(value) or _DOTS & set(value.split("/")):
        raise ValueError("is the begin of paths, in whole segments, less than all of the host: /v1/files")
    return value.rstrip("/") + "/"


def carried(outcome: Outcome, call: Call, scope: Scope, answer: Answer) -> Outcome:
    """The outcome of an answer with what it carries beside JSON: bytes of another kind, or links to fetch.

    Where a success has no links it has no result: it has failed, whatever it cost. Where they cannot be found, or lead where
    nothing may be fetched from, our own words are wrong and not the work: its answer is kept, and read again.
    """
    if outcome.verdict not in ("succeeded", "partial"):
        return outcome
    try:
        block = compile_result_files(call.upstream)
        if block is not None:
            scope.set("response", answer.as_value())
            # Unless the type says what its result is, it is the files: the body would tell of links that end.
            result = None if outcome.result is answer.body else outcome.result
            return replace(outcome, result=result, files=links(block, call, scope))
    except NoLinks as error:
        return _failed(outcome, str(error))
    except (SpecError, ExpressionError, LinkRefused) as error:
        return _unread(outcome, answer, str(error))
    if answer.raw and outcome.result is None:
        return replace(outcome, content=(answer.raw, answer.headers.get("content-type", "")))
    return outcome


def links_again(block: ResultFiles, call: Call, unread: Mapping[str, Any]) -> dict[str, str]:
    """What `urls` gives of an answer that was kept. Raises LinkRefused, NoLinks."""
    scope = scope_of(call)
    scope.set("response", dict(unread))
    try:
        return links(block, call, scope)
    except ExpressionError as error:
        raise LinkRefused(f"urls: {error}") from error


def links(block: ResultFiles, call: Call, scope: Scope) -> dict[str, str]:
    """What `urls` gives, by name. Raises ExpressionError, LinkRefused, NoLinks."""
    value = block.urls.evaluate(scope)
    if value is None or value in ([], {}, ""):
        raise NoLinks("urls gives nothing: the upstream made no file")
    if isinstance(value, str):
        value = {ALONE: value}
    elif isinstance(value, list):
        value = {str(place): link for place, link in enumerate(value)}
    if not isinstance(value, dict) or len(value) > MOST_LINKS:
        raise LinkRefused(f"urls is a text, a list or a map of texts, 1 to {MOST_LINKS} of them")
    for name, link in value.items():
        if not isinstance(link, str) or not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            raise LinkRefused("a link is a text, and so is its name")
        allowed(block, call.base_url, link)
    return dict(value)


def _failed(outcome: Outcome, why: str) -> Outcome:
    problem = f"result_files: {why}"[:300]
    return replace(outcome, verdict="failed", result=None, error_code=UNAVAILABLE, error_message=problem)


def _unread(outcome: Outcome, answer: Answer, why: str) -> Outcome:
    kept = answer.as_value()
    if len(json.dumps(kept, default=str)) > MOST_ANSWER_BYTES:
        return _failed(outcome, f"{why}; the answer is too large to be read again")
    result = None if outcome.result is answer.body else outcome.result
    problem = f"result_files: {why}"[:300]
    return replace(outcome, result=result, unread=kept, error_code=UNAVAILABLE, error_message=problem)


def allowed(block: ResultFiles, base_url: str, link: str, after: URL | None = None) -> Address:
    """The address of a link, or of a redirect `after` another. Raises LinkRefused."""
    try:
        url = URL(link, encoded=True)
        origin = (url.scheme, url.host, url.port)
        base = URL(base_url)
    except (ValueError, TypeError):
        raise LinkRefused("a link is no address") from None
    if (
        url.scheme not in _DEFAULT_PORTS
        or not url.host
        or "@" in url.raw_authority
        or len(link) > LONGEST_LINK
        or not link.isprintable()
    ):
        raise LinkRefused("a link is no address that is fetched")
    if after is not None and after.scheme == "https" and url.scheme != "https":
        raise LinkRefused("redirected from https to http")
    own = origin == (base.scheme, base.host, base.port)
    usual = url.port == _DEFAULT_PORTS[url.scheme]
    names = {f"{url.host}:{url.port}", url.host if usual else ""}
    if not own and not names & block.hosts:
        raise LinkRefused(f"the host {url.host} is neither base_url's nor one of hosts")
    return Address(url, own, own and _is_under(url.raw_path, block.paths))


def _is_under(path: str, prefixes: tuple[str, ...]) -> bool:
    """Whether the path, read by whichever server, is one of these: a tenant may have made the upstream say it."""
    plain = _PLAIN_PATH.fullmatch(path) is not None and not _DOTS & set(path.split("/"))
    return plain and any(path.startswith(prefix) for prefix in prefixes)


@lru_cache(maxsize=1024)
def _compiled(key: str) -> ResultFiles:
    headers, block = json.loads(key)
    if not isinstance(block, dict):
        raise SpecError("result_files", f"is a map with some of {', '.join(sorted(FIELDS))}")
    if unknown := sorted(set(block) - FIELDS):
        raise SpecError(f"result_files.{unknown[0]}", f"is not known; known are {', '.join(sorted(FIELDS))}")
    urls = optional("result_files", block, "urls", FOLLOW_RESPONSE_NAMES)
    if urls is None:
        raise SpecError("result_files.urls", "is required: where the links stand in the answer")
    request = Sending(**sending("result_files", {"path": "'/'"}, headers, SUBMIT_NAMES, method="GET"))
    return ResultFiles(urls, _hosts(block), _paths(block), _max_bytes(block), _timeout_ms(block), request)


def _hosts(block: Mapping[str, Any]) -> frozenset[str]:
    hosts = block.get("hosts") or []
    if not isinstance(hosts, list):
        raise SpecError("result_files.hosts", "is a list")
    try:
        return frozenset(host(name) for name in hosts)
    except ValueError as error:
        raise SpecError("result_files.hosts", str(error)) from None


def _paths(block: Mapping[str, Any]) -> tuple[str, ...]:
    auth, paths = block.get("auth") or False, block.get("paths") or []
    if not isinstance(auth, bool):
        raise SpecError("result_files.auth", "is true or false")
    if not isinstance(paths, list):
        raise SpecError("result_files.paths", "is a list")
    if auth != bool(paths):
        lacking, said = ("paths", "auth") if auth else ("auth", "paths")
        raise SpecError(f"result_files.{lacking}", f"is required with {said}: the headers go to these paths alone")
    try:
        return tuple(path_prefix(path) for path in paths)
    except ValueError as error:
        raise SpecError("result_files.paths", str(error)) from None


def _max_bytes(block: Mapping[str, Any]) -> int:
    try:
        return DEFAULT_MAX_BYTES if block.get("max") is None else size_bytes(block["max"])
    except ValueError as error:
        raise SpecError("result_files.max", str(error)) from None


def _timeout_ms(block: Mapping[str, Any]) -> int:
    try:
        timeout = DEFAULT_TIMEOUT_MS if block.get("timeout") is None else duration_ms(block["timeout"])
    except ValueError as error:
        raise SpecError("result_files.timeout", str(error)) from None
    if not 0 < timeout <= MAX_TIMEOUT_MS:
        raise SpecError("result_files.timeout", "must be more than 0 and at most 1h")
    return timeout
