"""What is declared for a cell: its pool of two accounts with a session each, and its type, whose times are short."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from tests.verdicts.cells import PRICE
from tests.verdicts.table import Cell

MAX_RUNTIME_SECONDS: Final = 7
NOBODY: Final = "http://127.0.0.1:9"  # the discard port, where nothing listens
TENANT: Final = "verdicts"
ASKED_OF = "'sim': payload.sim, 'units': payload.units, 'latency_ms': payload.latency_ms"
AUTHORIZATION = {"Authorization": "'Bearer ' + account.credential"}
RETRY = {"attempts": 2, "first": "200ms", "max": "200ms"}
SUBMIT = {
    "headers": {"Idempotency-Key": "dispatch_key"},
    "timeout": "2s",
    "exists": "response.status == 409 && response.body.error.code == 'exists'",
}
SYNC = {
    **SUBMIT,
    "path": "'/run'",
    "body": f"{{{ASKED_OF}}}",
    "success": "response.status == 200 && response.body.status == 'done'",
    "partial": "response.status == 200 && response.body.status == 'partial'",
    "failed": "response.status == 200 && response.body.status == 'failed'",
    "units": "response.body.units",
}
STARTED = {**SUBMIT, "path": "'/tasks'", "reference": "response.body.id", "body": f"{{{ASKED_OF}}}"}
SAYS = {
    "running": "response.body.status in ['queued', 'running', 'THROTTLED']",
    "success": "response.body.status == 'done'",
    "partial": "response.body.status == 'partial'",
    "failed": "response.body.status in ['failed', 'cancelled']",
    "result": "response.body.output",
    "units": "response.body.units",
    "error": "response.body.error",
}
POLL = {"path": "'/tasks/' + reference", "every": "300ms", "fallback": "1500ms", "timeout": "1s", **SAYS}
FIND = {
    "path": "'/tasks/any?key=' + dispatch_key",
    "after": "2s",
    "timeout": "1s",
    "reference": "response.body.id",
    **SAYS,
}
CANCEL = {
    "method": "DELETE",
    "path": "'/tasks/' + reference",
    "timeout": "1s",
    "success": "response.status == 200 && response.body.status == 'cancelled'",
}


def config(cells: Mapping[Cell, str], credentials: Mapping[str, str]) -> dict[str, Any]:
    """What `apply` takes; `cells` with the addresses of their upstreams, `credentials` are variables by account."""
    return {
        "pools": {cell.name: _pool(cell, url, credentials) for cell, url in cells.items()},
        "job_types": {cell.name: _job_type(cell) for cell in cells},
        "tenants": {TENANT: {"credits": 10 * PRICE * len(cells)}},
    }


def payload(cell: Cell) -> dict[str, Any]:
    latency_ms = cell.fault.latency_ms
    of_mode = latency_ms if isinstance(latency_ms, int) else latency_ms[cell.mode]
    return {"sim": dict(cell.fault.sim), "units": 4, "latency_ms": of_mode}


def _pool(cell: Cell, url: str, credentials: Mapping[str, str]) -> dict[str, Any]:
    accounts: dict[str, Any] = {name: {"credential": {"env": credentials[name]}} for name in cell.accounts}
    if cell.fault.first.get("unreachable"):
        accounts[cell.accounts[0]]["base_url"] = NOBODY
    return {"upstream": {"base_url": url, "headers": AUTHORIZATION}, "accounts": accounts}


def _job_type(cell: Cell) -> dict[str, Any]:
    policy = {"delivery": "at_least_once", "accept_repeats": True} if cell.fault.repeats else {}
    return {
        "pool": cell.name,
        "price": PRICE,
        "settle": "outcome.units",
        "max_runtime": f"{MAX_RUNTIME_SECONDS}s",
        "retry": RETRY,
        "upstream": _upstream(cell.mode, cell.means),
        **policy,
    }


# Once for each, so that the file says it once and refers to it; a file of all the blocks takes long to read.
@cache
def _upstream(mode: str, means: str) -> dict[str, Any]:
    submit: dict[str, Any] = {**(SYNC if mode == "sync" else STARTED), "idempotent": means == "idempotent"}
    declared: dict[str, Any] = {"mode": mode, "submit": submit, "cancel": CANCEL}
    if mode != "sync":
        declared["poll"] = POLL
    if mode == "callback":
        submit["body"] = f"{{{ASKED_OF}, 'callback_url': callback_url}}"
        declared["callback"] = {"reference": "response.body.id"}
    if means == "find":
        declared["find"] = FIND
    return declared
