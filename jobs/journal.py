"""The few lines an operator should read: what failed for good, what is in doubt, what was flagged. Once it has committed.

A line per job or task would cost as much as a small task; the moves tables keep those.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.db import transaction

logger = logging.getLogger(__name__)


def failed(cases: Sequence[Mapping[str, Any]], errors: Mapping[Any, Mapping[str, Any]]) -> None:
    """Dead letters: jobs (`id`, `attempt_id`, `tenant` and `pool` or their ids) with the error each ended with."""
    for case in cases:
        error = errors[case["id"]]
        _note(logging.WARNING, "job failed for good: %s", error["code"], case, code=error["code"])


def retried(case: Mapping[str, Any], code: str, pause_ms: int) -> None:
    _note(logging.DEBUG, "job goes back to its line: %s", f"{code}, again in {pause_ms} ms", case, code=code)


def flagged(case: Mapping[str, Any], why: str) -> None:
    """A completed job whose charge an operator should look at."""
    _note(logging.WARNING, "job flagged: %s", why, case)


def doubted(attempts: Sequence[Mapping[str, Any]], codes: Mapping[int, str]) -> None:
    """Attempts (`id`, `job_id`) whose outcome is unknown now, and by attempt what became of the call."""
    for attempt in attempts:
        code = codes[attempt["id"]]
        row = {"id": attempt["job_id"], "attempt_id": attempt["id"]}
        _note(logging.WARNING, "outcome unknown, to be found out: %s", code or "no answer", row, code=code)


def overdue(attempt: Mapping[str, Any]) -> None:
    """An attempt (`attempt_id`, `job_id`) that its upstream still works at when max_runtime is over."""
    _note(logging.WARNING, "runs longer than its type says: %s", "max_runtime", {**attempt, "id": attempt["job_id"]})


def surfaced(case: Mapping[str, Any], booked: str) -> None:
    """A success that came after its run had ended without one."""
    _note(logging.WARNING, "late completion: %s", booked, case)


def orphaned(case: Mapping[str, Any], end: str) -> None:
    """A hold that stood open after its run had ended, or without a job: there is a mistake in the code."""
    _note(logging.WARNING, "hold was left open by its run: %s", end, case)


def needs_attention(case: Mapping[str, Any], why: str) -> None:
    """A job that nobody but an operator can bring to its end."""
    _note(logging.WARNING, "job needs an operator: %s", why, case, code=why)


def not_read(account: Mapping[str, Any], why: str) -> None:
    """An upstream account (`name`, `pool`) whose provider did not say what is left."""
    _note_account("no reading of %s: %s", account, why)


def not_booked(account: Mapping[str, Any], off: str) -> None:
    """A reading of an upstream account that is too far off to be believed."""
    _note_account("reading of %s is kept, not booked: %s", account, off)


def accounts(told: Sequence[tuple[str, str, str]]) -> None:
    """Upstream accounts, or pools as one (account '', pool), that rest, were refused or answer again, and why."""
    for account, pool, what in told:
        _note_account("%s: %s", {"name": f"account {account}" if account else f"pool {pool}", "pool": pool}, what)


def _note_account(message: str, account: Mapping[str, Any], word: str) -> None:
    told = partial(logger.warning, message, account["name"], word, extra={"pool": account["pool"]})
    transaction.on_commit(told, robust=True)


def _note(level: int, message: str, word: str, case: Mapping[str, Any], **fields: Any) -> None:
    if logger.isEnabledFor(level):
        named = {
            "job": str(case["id"]),
            "attempt": case.get("attempt_id"),
            "tenant": case.get("tenant", case.get("tenant_id")),
            "pool": case.get("pool", case.get("pool_id")),
        }
        transaction.on_commit(partial(logger.log, level, message, word, extra={**named, **fields}), robust=True)
