"""By which ways the outcome of a call can be learned, as declared: asked for, told, found, or by sending again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from upstream.quantities import duration_ms

EVERY_MS: Final = 5_000  # between two polls of one task, or finds where none is declared
FALLBACK_MS: Final = 30_000  # the same where the upstream tells us
FIND_AFTER_MS: Final = 5_000  # since it was sent: an earlier "there is none" is not believed
ASK_TIMEOUT_MS: Final = 10_000
_REFERENCE: Final = "reference"


@dataclass(frozen=True, slots=True)
class Ways:
    """`idempotent`: by sending the same key again. `polls`, `finds`, `cancels`: whether the block is declared.

    `confirms`: what a callback says is asked for before it is believed. `polls_by_key`: a poll names the work by its dispatch
    key alone; of an adapter of one's own nobody knows.
    """

    mode: str
    idempotent: bool
    polls: bool
    finds: bool
    cancels: bool
    confirms: bool
    poll_needs_reference: bool
    polls_by_key: bool
    cancel_needs_reference: bool
    every_ms: int  # between two askings
    find_after_ms: int
    timeout_ms: int  # of the longest of poll, find and cancel


def ways(upstream: Mapping[str, Any]) -> Ways:
    """The ways of a merged `upstream` block. What is null, or written wrongly, counts as not said."""
    blocks = {name: _said(upstream.get(name)) for name in ("submit", "poll", "find", "cancel", "callback")}
    mode, poll = upstream.get("mode") or "sync", blocks["poll"]
    told = mode == "callback"
    return Ways(
        mode=mode,
        idempotent=blocks["submit"].get("idempotent") is True,
        polls=bool(poll),
        finds=bool(blocks["find"]),
        cancels=bool(blocks["cancel"]),
        confirms=bool(poll) and blocks["callback"].get("confirm") is not False,
        poll_needs_reference=_needs_reference(poll),
        polls_by_key=(upstream.get("adapter") or "http") == "http" and not _needs_reference(poll),
        cancel_needs_reference=_needs_reference(blocks["cancel"]),
        every_ms=_ms(poll, "fallback", FALLBACK_MS) if told else _ms(poll or blocks["find"], "every", EVERY_MS),
        find_after_ms=_ms(blocks["find"], "after", FIND_AFTER_MS),
        timeout_ms=max(_ms(blocks[name], "timeout", ASK_TIMEOUT_MS) for name in ("poll", "find", "cancel")),
    )


def _said(block: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (block or {}).items() if value is not None}


def _needs_reference(block: Mapping[str, Any]) -> bool:
    sources = [block.get("path"), block.get("body"), *(block.get("headers") or {}).values()]
    return any(_REFERENCE in str(source or "") for source in sources)


def _ms(block: Mapping[str, Any], name: str, usual_ms: int) -> int:
    try:
        return usual_ms if block.get(name) is None else max(1, int(duration_ms(block[name])))
    except ValueError:
        return usual_ms
