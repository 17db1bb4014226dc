"""What goes to an adapter and what comes back: a `Call` and its `Outcome`. Neither knows the database or Celery."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["", "succeeded", "partial", "failed", "not_executed", "unknown"]  # "": it goes on
ErrorClass = Literal["", "rejected", "busy", "auth", "transient"]
Action = Literal["submit", "poll", "find", "cancel"]  # what an upstream is called for


@dataclass(frozen=True, slots=True)
class Call:
    """All that one call of an upstream needs.

    `job` has id, type, attempt, metadata; `tenant` has name; `account` has name, credential, labels, vars.
    `upstream` is what `declared.merged` makes of the pool's and the job type's blocks. `reference` is what the upstream
    calls the work, empty as long as it has not said it.
    """

    key: str  # the dispatch key
    payload: Any
    job: dict[str, Any]
    tenant: dict[str, Any]
    account: dict[str, Any] = field(repr=False)  # holds the credential
    base_url: str
    upstream: Mapping[str, Any]
    callback_url: str = ""
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known after a call, as two answers kept apart.

    `over`: is the upstream session known to be over? `verdict`: was it executed? An empty verdict: it goes on, and
    `reference` says under which name, `progress` (0 to 1) how far it is.
    `error_class` says whose fault it was: the tenant's (rejected), nobody's (busy), the credential's (auth), the
    connection's or the upstream's (transient). It may accompany `unknown`: a repeat that was refused for being busy.
    `units` is what the upstream says was used, `cost` what it took of the account, in its credits; `usage_problem` says why
    one of them could not be believed. `unread` is a `response` as expressions see it, to be read again once what is declared
    is mended; `error_message` says then what is wrong with that.
    """

    over: bool
    verdict: Verdict
    error_class: ErrorClass = ""
    status: int | None = None
    units: float | None = None
    cost: float | None = None
    usage_problem: str = ""
    result: Any = None
    error_code: str = ""
    error_message: str = ""
    retry_after_ms: int | None = None
    reference: str = ""
    progress: float | None = None
    content: tuple[bytes, str] | None = field(default=None, repr=False)  # a result that is no JSON, and its type
    files: Mapping[str, str] | None = None  # of a success: name → link, to be fetched before it is said
    unread: Mapping[str, Any] | None = field(default=None, repr=False)  # a success's answer, its links yet to be found
    elapsed_ms: int = 0
