"""What is declared beside the world's own for gaps that its load does not come by: two pools, types and tenants."""

from collections.abc import Mapping
from typing import Any, Final

from tests.chaos.declared import STARTS, SYNC, WAYS
from tests.chaos.world import LEASE_SECONDS, SWEEP_SECONDS
from tests.verdicts.declared import AUTHORIZATION, SAYS

TENANT: Final = "prober"
QUEUE: Final = "queuer"  # which may run one job at a time
ACCOUNTS: Final = {"points": ("points-1", "points-2"), "points paid": ("points-paid",)}
SESSIONS: Final = 8
CREDITS: Final = 1_000  # of the account that pays
WAY = {**SYNC, "idempotent": True}
LATE_RUNTIME: Final = 2.0
# Until nobody waits for it any more: its session is given on when its longest run and a lease are over, and swept.
LATE: Final = LATE_RUNTIME + LEASE_SECONDS + 2 * SWEEP_SECONDS + 1.0
REPEATABLE = {"delivery": "at_least_once", "max_runtime": "8s"}
TYPES: Final[Mapping[str, Mapping[str, Any]]] = {
    "points swift": {**REPEATABLE, "upstream": {"submit": WAY}},
    "points large": {**REPEATABLE, "max_payload": "1MB", "upstream": {"submit": WAY}},
    "points asked": WAYS["asked"],
    # Told after its session must have been over, and never asked: a success that surfaces late.
    "points late": {
        "max_runtime": f"{LATE_RUNTIME:.0f}s",
        "upstream": {
            "mode": "callback",
            "submit": {
                **STARTS,
                "timeout": "1s",
                "body": f"{{'callback_url': callback_url, 'sim': {{'late_callback': {LATE}}}}}",
            },
            "callback": {"reference": "response.body.id", **SAYS},
        },
    },
    # Nobody can be asked what came of it: an operator decides.
    "points unknown": {"max_runtime": "6s", "upstream": {"submit": SYNC}},
}


def config(url: str, files_at: str) -> dict[str, Any]:
    """What `apply` takes; `url` of the upstream, `files_at`: host and port of results that lie behind links."""
    pools = {name: _pool(url, names) for name, names in ACCOUNTS.items()}
    pools["points paid"]["accounts"]["points-paid"]["credits"] = CREDITS
    pools["points paid"]["balance"] = {"every": "1h", "path": "'/account'", "value": "response.body.balance"}
    linked = {"urls": "response.body.output.echo", "hosts": [files_at]}
    paid = {**WAY, "cost": "response.body.units"}
    types = {
        **TYPES,
        "points linked": {**REPEATABLE, "upstream": {"submit": WAY, "result_files": linked}},
        "points paid": {**REPEATABLE, "pool": "points paid", "cost": "payload.units", "upstream": {"submit": paid}},
    }
    retry = {"attempts": 10, "first": "200ms", "max": "1s"}
    return {
        "pools": pools,
        "job_types": {name: {"pool": "points", "price": 2, "retry": retry, **one} for name, one in types.items()},
        "tenants": {TENANT: {"credits": 100_000}, QUEUE: {"credits": 100_000, "max_running": 1}},
    }


def of_simulator() -> list[dict[str, Any]]:
    """The accounts as `POST /control/accounts` wants them."""
    names = [name for names in ACCOUNTS.values() for name in names]
    accounts: list[dict[str, Any]] = [
        {"name": name, "credential": f"sim-{name}", "sessions": SESSIONS} for name in names
    ]
    accounts[-1]["balance"] = CREDITS
    return accounts


def credentials() -> dict[str, str]:
    """What the environment of `apply` holds."""
    return {_variable(name): f"sim-{name}" for names in ACCOUNTS.values() for name in names}


def _pool(url: str, names: tuple[str, ...]) -> dict[str, Any]:
    accounts = {name: {"sessions": SESSIONS, "credential": {"env": _variable(name)}} for name in names}
    return {
        "upstream": {"base_url": url, "headers": AUTHORIZATION},
        "breaker": {"failures": 20, "quarantine": "1s", "max": "2s"},
        "accounts": accounts,
    }


def _variable(account: str) -> str:
    return "CREDENTIAL_" + account.upper().replace("-", "_")
