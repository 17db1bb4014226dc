"""What the calls of a job type cannot do without, and that all of them compile as the adapter compiles them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from django.conf import settings

from broker_project.config.findings import Findings, Place
from upstream.balances import compile_balance
from upstream.declared import merged
from upstream.following import compile_callback, compile_cancel, compile_find, compile_poll
from upstream.result_files import compile_result_files
from upstream.spec import SpecError, compile_submit
from upstream.ways import ways

Lack = tuple[str, str, str]  # block, field ("" for all of it), why
# Where else what is lacking may stand: another block that says it, or all of the request that would send it.
_ELSEWHERE: Final = {"find.success": "poll.success", "callback.success": "poll.success", "submit.idempotent": "submit"}

_COMPILED: Final[dict[str, Callable[[Mapping[str, Any]], object]]] = {
    "submit": compile_submit,
    "poll": compile_poll,
    "find": compile_find,
    "cancel": compile_cancel,
    "callback": compile_callback,
}
_COMPILED_BESIDE: Final[dict[str, Callable[[Mapping[str, Any]], object]]] = {"result_files": compile_result_files}


def check_calls(
    job_type: Mapping[str, Any], upstreams: Sequence[Mapping[str, Any]], place: Place, findings: Findings
) -> None:
    """`upstreams` are those of its pools, `place` is the type's `upstream`. An adapter of one's own reads it its own way."""
    if not job_type["upstream"] or any((pool.get("adapter") or "http") != "http" for pool in upstreams):
        return
    for pool in upstreams:
        declared = merged(pool, job_type["upstream"])
        lacks = list(_lacks(declared))
        for block, field, why in lacks:
            name = f"{block}.{field}" if field else block
            findings.lacking(_at(place, name), why, _at(place, _ELSEWHERE.get(name, name)))
        if lacks:
            return
        if declared["mode"] == "callback" and not (declared.get("poll") or declared.get("find")):
            findings.later(
                place.field("mode"),
                "callback without poll or find: what a lost callback would have said is never known",
            )


def check_compiled(rows: Mapping[str, Mapping[str, Any]], pools: Mapping[str, Any], findings: Findings) -> None:
    """The last check, of what will be stored; `pools` are the `upstream` blocks by name, those of the file and others."""
    for name, row in rows.items():
        declared = merged(pools.get(row["pool"], {}), row["upstream"])
        if (declared.get("adapter") or "http") != "http":
            continue
        for block, compiled in {**_COMPILED, **_COMPILED_BESIDE}.items():
            if not declared.get(block):
                continue
            try:
                compiled(declared)
            except SpecError as error:
                findings.error(Place().field("job_types").entry(name).field("upstream"), str(error))
                break  # a header of every call is a mistake of each


def check_balances(pools: Mapping[str, Any], findings: Findings) -> None:
    """That the balance of each pool that has one can be asked for; `pools` are rows by name."""
    for name, pool in pools.items():
        if "balance" not in pool["upstream"]:
            continue
        try:
            compile_balance(pool["upstream"])
        except SpecError as error:
            where = Place().field("pools").entry(name)
            # A header of every call may need a job, which there is none here.
            own = error.field.startswith("headers.")
            hint = "; balance.headers may name the header too, with another expression or null" if own else ""
            findings.error(where.field("upstream") if own else where, f"{error}{hint}")


def _at(place: Place, name: str) -> Place:
    for part in name.split("."):
        place = place.field(part)
    return place


def _lacks(declared: Mapping[str, Any]) -> Iterator[Lack]:
    mode = declared["mode"]
    blocks = {name: declared.get(name) or {} for name in _COMPILED}
    submit, poll = blocks["submit"], blocks["poll"]
    if not submit.get("path"):
        yield "submit", "path", "is required, an expression such as \"'/run'\""
    if submit.get("idempotent") and not _uses(declared, "dispatch_key"):
        why = "true means that the upstream deduplicates by the dispatch key, but no header, path or body sends it"
        yield "submit", "idempotent", why
    if mode == "poll" or poll:
        yield from _lacks_of_poll(declared, submit, poll)
    if blocks["find"]:
        if not blocks["find"].get("path"):
            yield "find", "path", "is required"
        if not blocks["find"].get("success") and not poll.get("success"):
            yield "find", "success", "is required, here or in poll: without it nothing is known to have succeeded"
    if blocks["cancel"] and not blocks["cancel"].get("path"):
        yield "cancel", "path", "is required"
    if mode == "callback":
        yield from _lacks_of_callback(declared, blocks)


def _lacks_of_poll(declared: Mapping[str, Any], submit: Mapping[str, Any], poll: Mapping[str, Any]) -> Iterator[Lack]:
    mode = declared["mode"]
    asked_by_name = ways(declared).poll_needs_reference or not poll
    if mode == "poll" and asked_by_name and not submit.get("reference") and not declared.get("find"):
        yield "submit", "reference", "is required in mode poll: what is asked for later; or find, which tells it"
    if not poll.get("path"):
        where = "in mode poll" if mode == "poll" else "where poll is declared"
        yield "poll", "path", f"is required {where}: where the outcome is asked for"
    if not poll.get("success"):
        yield "poll", "success", "is required: without it nothing is known to have succeeded"


def _lacks_of_callback(declared: Mapping[str, Any], blocks: Mapping[str, Any]) -> Iterator[Lack]:
    if not _uses(declared, "callback_url"):
        yield "submit", "", "sends no callback_url, which mode callback needs: in its path, a header or its body"
    if not getattr(settings, "PUBLIC_URL", ""):
        yield "mode", "", "callback needs the setting PUBLIC_URL: the address under which the upstream reaches web"
    if not (blocks["callback"].get("success") or blocks["poll"].get("success")):
        yield "callback", "success", "is required, here or in poll: without it nothing is known to have succeeded"


def _uses(declared: Mapping[str, Any], name: str) -> bool:
    """Whether a submit sends the value of this name."""
    submit = declared.get("submit") or {}
    headers = {**(declared.get("headers") or {}), **(submit.get("headers") or {})}
    return any(name in str(source or "") for source in (submit.get("path"), submit.get("body"), *headers.values()))
