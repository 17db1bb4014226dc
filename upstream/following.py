"""The blocks poll, find, cancel and callback of an `upstream`, compiled: how work that was started is followed.

What `find` and `callback` do not say of their answers is as in `poll`: most providers show one task the same everywhere.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from upstream.expressions import FOLLOW_NAMES, FOLLOW_RESPONSE_NAMES, Expression
from upstream.spec import Sending, SpecError, content_key, flag, only_known, optional, sending
from upstream.ways import ASK_TIMEOUT_MS

SENDING_FIELDS: Final = frozenset({"method", "path", "headers", "body", "timeout"})
MEANINGS: Final = ("running", "success", "partial", "failed", "progress", "result", "units", "cost", "error")
POLL_FIELDS: Final = SENDING_FIELDS | {"every", "fallback", *MEANINGS}
FIND_FIELDS: Final = SENDING_FIELDS | {"after", "every", "missing", "reference", *MEANINGS}
CANCEL_FIELDS: Final = SENDING_FIELDS | {"success"}
CALLBACK_FIELDS: Final = frozenset({"confirm", "reference", *MEANINGS})


@dataclass(frozen=True, slots=True)
class Meanings:
    """What an answer about started work says. None: nothing is claimed so; `result`: the body."""

    running: Expression | None
    success: Expression | None
    partial: Expression | None
    failed: Expression | None
    progress: Expression | None
    result: Expression | None
    units: Expression | None
    cost: Expression | None
    error: Expression | None


@dataclass(frozen=True, slots=True)
class Poll(Sending):
    """How work is asked for by its reference."""

    says: Meanings


@dataclass(frozen=True, slots=True)
class Find(Sending):
    """How work is looked for by the dispatch key. `missing` None: status 404."""

    says: Meanings
    missing: Expression | None
    reference: Expression | None


@dataclass(frozen=True, slots=True)
class Cancel(Sending):
    """How the end of work is asked for. `success`: it is over already; None: it was only asked for."""

    success: Expression | None


@dataclass(frozen=True, slots=True)
class Callback:
    """What the upstream tells us unasked. `confirm`: it is asked for before it is believed, where that is possible."""

    says: Meanings
    reference: Expression | None
    confirm: bool


def compile_poll(upstream: Mapping[str, Any]) -> Poll:
    """The compiled `poll` of a merged `upstream` block; once per content, as all here. Raises SpecError."""
    return _poll(content_key(upstream.get("headers"), upstream.get("poll")))


def compile_find(upstream: Mapping[str, Any]) -> Find:
    return _find(content_key(upstream.get("headers"), upstream.get("find"), upstream.get("poll")))


def compile_cancel(upstream: Mapping[str, Any]) -> Cancel:
    return _cancel(content_key(upstream.get("headers"), upstream.get("cancel")))


def compile_callback(upstream: Mapping[str, Any]) -> Callback:
    """As the others; a `callback` that is not declared is read as polls are."""
    return _callback(content_key(upstream.get("callback") or {}, upstream.get("poll")))


@lru_cache(maxsize=1024)
def _poll(key: str) -> Poll:
    headers, written = json.loads(key)
    block = _known("poll", written, POLL_FIELDS)
    return Poll(**_sending("poll", block, headers, "GET"), says=_meanings("poll", block, {}))


@lru_cache(maxsize=1024)
def _find(key: str) -> Find:
    headers, written, poll = json.loads(key)
    block = _known("find", written, FIND_FIELDS)
    return Find(
        **_sending("find", block, headers, "GET"),
        says=_meanings("find", block, poll or {}),
        missing=optional("find", block, "missing", FOLLOW_RESPONSE_NAMES),
        reference=optional("find", block, "reference", FOLLOW_RESPONSE_NAMES),
    )


@lru_cache(maxsize=1024)
def _cancel(key: str) -> Cancel:
    headers, written = json.loads(key)
    block = _known("cancel", written, CANCEL_FIELDS)
    return Cancel(
        **_sending("cancel", block, headers, "POST"),
        success=optional("cancel", block, "success", FOLLOW_RESPONSE_NAMES),
    )


@lru_cache(maxsize=1024)
def _callback(key: str) -> Callback:
    written, poll = json.loads(key)
    block = _known("callback", written, CALLBACK_FIELDS)
    return Callback(
        says=_meanings("callback", block, poll or {}),
        reference=optional("callback", block, "reference", FOLLOW_RESPONSE_NAMES),
        confirm=flag("callback", block, "confirm", usual=True),
    )


def _known(at: str, block: Any, fields: frozenset[str]) -> Mapping[str, Any]:
    if not isinstance(block, dict):
        raise SpecError(at, "is not declared")
    only_known(at, block, fields)
    return block


def _sending(at: str, block: Mapping[str, Any], headers: Any, method: str) -> dict[str, Any]:
    return sending(at, block, headers, FOLLOW_NAMES, method=method, timeout_ms=ASK_TIMEOUT_MS)


def _meanings(at: str, block: Mapping[str, Any], usual: Mapping[str, Any]) -> Meanings:
    """A mistake in what is taken from `usual` is named where it stands, in `poll`."""
    made = {
        name: optional(*(("poll", usual) if block.get(name) is None else (at, block)), name, FOLLOW_RESPONSE_NAMES)
        for name in MEANINGS
    }
    return Meanings(**made)
