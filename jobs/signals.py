"""What is announced after a commit. Received in `jobs.flow` only."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.db import transaction
from django.dispatch import Signal

job_moved = Signal()  # verb, moved: list of statemachine.machine.Moved, with pool_id, tenant_id, turn, due_at
attempt_ended = Signal()  # rows: attempts known to have ended, with job_id
attempt_doubted = Signal()  # rows: attempts whose outcome is unknown, with job_id and look_at
attempt_told = Signal()  # rows: attempts about which the upstream called back, with job_id and look_at
cancel_wanted = Signal()  # rows: attempts that the upstream is to be asked to cancel, with job_id
attempt_owing = Signal()  # rows: ended attempts whose result is to be fetched, with job_id and fetch_at
completion_late = Signal()  # rows: attempts of which a success came too late to end them, with job_id


def announce_attempts(signal: Signal, rows: Sequence[Mapping[str, Any]]) -> None:
    """Sends `signal` for these attempts once the transaction has committed."""
    if rows:
        transaction.on_commit(partial(signal.send_robust, sender=None, rows=rows), robust=True)
