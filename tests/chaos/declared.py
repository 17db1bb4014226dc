"""What the world is configured to do: a type for each way of delivery, in a pool of its own, and tenants for them."""

from collections.abc import Mapping
from typing import Any, Final

from tests.verdicts.declared import AUTHORIZATION, CANCEL, SAYS

ACCOUNTS: Final = 3  # of each pool
SESSIONS: Final = 2  # of each account
LATENCY: Final = "uniform:150ms:350ms"
UNASKABLE: Final = ("once", "told", "points late", "points unknown")  # nobody can be asked what became of a lost answer
PATIENCE: Final = "3s"
# Those of the strict upstream, which executes a key again when it is sent again, and those of the one that deduplicates.
UPSTREAMS: Final[Mapping[str, tuple[str, ...]]] = {"upstream": ("swift", "asked", "told"), "strict": ("once",)}
TYPES: Final = tuple(name for names in UPSTREAMS.values() for name in names)
POOR: Final = "poor"  # whose credits are soon gone
TENANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ample": {"credits": 1_000_000, "share": 2},
    "capped": {"credits": 1_000_000, "max_running": 8},
    "plain": {"credits": 1_000_000},
    POOR: {"credits": 40},
}
SUBMIT = {"headers": {"Idempotency-Key": "dispatch_key"}, "timeout": PATIENCE}
STARTS = {**SUBMIT, "path": "'/tasks'", "reference": "response.body.id"}
SYNC = {
    **SUBMIT,
    "path": "'/run'",
    "success": "response.status == 200 && response.body.status == 'done'",
    "failed": "response.status == 200 && response.body.status == 'failed'",
    "units": "response.body.units",
}
POLL = {"path": "'/tasks/' + reference", "every": "300ms", "fallback": "1s", "timeout": "1s", **SAYS}
FIND = {
    "path": "'/tasks/any?key=' + dispatch_key",
    "after": "1s",
    "every": "500ms",
    "timeout": "1s",
    "reference": "response.body.id",
    **SAYS,
}
WAYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "swift": {
        "delivery": "at_least_once",
        "max_runtime": "8s",
        "upstream": {"mode": "sync", "submit": {**SYNC, "idempotent": True}},
    },
    "once": {"max_runtime": "6s", "upstream": {"mode": "sync", "submit": SYNC}},
    "asked": {
        "delivery": "at_least_once",
        "max_runtime": "20s",
        "upstream": {"mode": "poll", "submit": STARTS, "poll": POLL, "find": FIND, "cancel": CANCEL},
    },
    "told": {
        "max_runtime": "6s",
        "upstream": {
            "mode": "callback",
            "submit": {**STARTS, "body": "{'n': payload.n, 'callback_url': callback_url}"},
            "poll": POLL,
            "callback": {"reference": "response.body.id"},
            "cancel": CANCEL,
        },
    },
}


def accounts(job_type: str) -> list[str]:
    return [f"{job_type}-{number}" for number in range(1, ACCOUNTS + 1)]


def credentials() -> dict[str, str]:
    """What the environment of `apply` holds: variable → credential."""
    return {_variable(name): f"sim-{name}" for job_type in TYPES for name in accounts(job_type)}


def of_simulator(upstream: str) -> list[dict[str, Any]]:
    """The accounts of one simulator, as its `--accounts-file` wants them."""
    names = [name for job_type in UPSTREAMS[upstream] for name in accounts(job_type)]
    return [{"name": name, "credential": f"sim-{name}", "sessions": SESSIONS} for name in names]


def config(urls: Mapping[str, str]) -> dict[str, Any]:
    """What `apply` takes; `urls` are the upstreams' addresses by the names in UPSTREAMS."""
    at = {job_type: urls[upstream] for upstream, types in UPSTREAMS.items() for job_type in types}
    return {
        "pools": {job_type: _pool(job_type, url) for job_type, url in at.items()},
        "job_types": {
            job_type: {
                "pool": job_type,
                "price": 2,
                "settle": "outcome.units",
                "retry": {"attempts": 10, "first": "200ms", "max": "1s"},
                **WAYS[job_type],
            }
            for job_type in TYPES
        },
        "tenants": {name: dict(tenant) for name, tenant in TENANTS.items()},
    }


def _pool(job_type: str, url: str) -> dict[str, Any]:
    return {
        "upstream": {"base_url": url, "headers": AUTHORIZATION},
        # An account rests only as long as a test has patience: what is tried here is not the breaker.
        "breaker": {"failures": 20, "quarantine": "1s", "max": "2s"},
        "accounts": {
            name: {"sessions": SESSIONS, "credential": {"env": _variable(name)}} for name in accounts(job_type)
        },
    }


def _variable(account: str) -> str:
    return "CREDENTIAL_" + account.upper().replace("-", "_")
