"""From the parsed file to the rows it asks for: columns by name, and the declaration as it was written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from broker_project.config.checks import pools_of
from broker_project.config.secrets import without_secret
from credits.pricing import to_micro
from upstream.declared import merged
from upstream.spec import DEFAULT_TIMEOUT_MS

Row = dict[str, Any]
DEFAULT_PAUSE_MS = 1000  # between two submits while credits are low


@dataclass
class Wanted:
    """The rows by name. An account's name is (pool, account); its `credential` is in no column of the row."""

    pools: dict[str, Row] = field(default_factory=dict)
    accounts: dict[tuple[str, str], Row] = field(default_factory=dict)
    credentials: dict[tuple[str, str], str] = field(default_factory=dict)
    job_types: dict[str, Row] = field(default_factory=dict)
    tenants: dict[str, Row] = field(default_factory=dict)
    grants: dict[str, int] = field(default_factory=dict)  # tenant → micro-credits
    top_ups: dict[tuple[str, str], int] = field(default_factory=dict)  # account → micro-credits
    ceiling: Row | None = None  # None: the file says nothing of budgets of all tenants


def rows(written: Mapping[str, Any], parsed: Mapping[str, Any]) -> Wanted:
    """`written` is the file as read, `parsed` the same after its checks."""
    wanted = Wanted()
    for name, pool in parsed["pools"].items():
        given = dict(written["pools"][name] or {})
        accounts = given.pop("accounts", None) or {}
        wanted.pools[name] = _pool(pool, given)
        for account_name, account in pool["accounts"].items():
            key = (name, account_name)
            wanted.accounts[key] = _account(account, accounts[account_name] or {})
            wanted.credentials[key] = account["credential"] or ""
            if account["credits"] is not None:
                wanted.top_ups[key] = to_micro(account["credits"])
    for name, job_type in parsed["job_types"].items():
        wanted.job_types[name] = _job_type(job_type, written["job_types"][name])
    for name, tenant in parsed["tenants"].items():
        wanted.tenants[name] = _tenant(tenant, written["tenants"][name] or {})
        if tenant["credits"]:
            wanted.grants[name] = to_micro(tenant["credits"])
    if parsed["budgets"] is not None:
        wanted.ceiling = _budgets(parsed["budgets"])
    return wanted


def _budgets(budgets: Row | None) -> Row:
    """Micro-credits; None: no budget."""
    found = budgets or {}
    return {
        f"{period}_budget": None if found.get(period) is None else to_micro(found[period])
        for period in ("day", "month")
    }


def _low_credits(low: Row | None) -> Row:
    if low is None or low["below"] is None:
        return {"low_below": None, "low_pause_ms": DEFAULT_PAUSE_MS}
    limit, per_ms = low["submit_rate"]
    return {"low_below": to_micro(low["below"]), "low_pause_ms": -(-per_ms // limit)}


def _pool(pool: Row, written: Row) -> Row:
    # With the preset's address and headers, for what is asked for no job: a balance. The rest is laid over it at each call.
    declared = merged(pool["upstream"], {})
    upstream = {name: declared[name] for name in ("adapter", "base_url", "headers")}
    if pool["upstream"]["preset"]:
        upstream["preset"] = pool["upstream"]["preset"]
    if pool["poll_rate"]:
        upstream["poll_rate"] = pool["poll_rate"]
    if pool["balance"]:
        upstream["balance"] = _balance(pool["balance"])
    return {
        "order": pool["order"],
        "window": pool["window"],
        "cooldown_ms": pool["cooldown"],
        "breaker": _breaker(pool["breaker"]),
        "upstream": upstream,
        "accepting": True,
        "declared": written,
    }


def _breaker(breaker: Row | None) -> Row:
    """Empty where the file says nothing: then what `pool.queries.health` has for it."""
    if breaker is None:
        return {}
    return {"failures": breaker["failures"], "quarantine_ms": breaker["quarantine"], "max_ms": breaker["max"]}


def _balance(balance: Row) -> Row:
    """How it is asked for, `every_ms`, and `most` in micro-credits, where it is said."""
    asked = {name: balance[name] for name in ("method", "path", "headers", "body", "value") if balance[name]}
    if balance["timeout"]:
        asked["timeout"] = f"{balance['timeout']}ms"
    most = None if balance["most"] is None else to_micro(balance["most"])
    return {**asked, "every_ms": balance["every"], "most": most}


def _account(account: Row, written: Row) -> Row:
    return {
        "sessions": account["sessions"] if account["accepting"] else 0,
        "base_url": account["base_url"],
        "labels": account["labels"],
        "vars": account["vars"],
        "declared": without_secret(written),
    }


def _job_type(job_type: Row, written: Row) -> Row:
    retry = job_type["retry"]
    columns = {"attempts": "attempts", "first": "first_ms", "factor": "factor", "max": "max_ms", "within": "within_ms"}
    return {
        "pool": pools_of(job_type)[0],
        "price": job_type["price"],
        "settle": job_type["settle"],
        "overrun": job_type["overrun"],
        "cost": job_type["cost"],
        "weight": job_type["weight"],
        "payload_schema": job_type["payload_schema"],
        "max_payload_bytes": job_type["max_payload"],
        "start_deadline_ms": job_type["start_deadline"],
        "max_runtime_ms": job_type["max_runtime"],
        "delivery": job_type["delivery"],
        "retry": {columns[name]: retry[name] for name in columns if retry.get(name) is not None},
        "upstream": _upstream(job_type, written["upstream"]),
        "accepting": job_type["accepting"],
        "declared": written,
    }


def _upstream(job_type: Row, written: Row) -> Row:
    """The block as written; a call without a time-out of its own never outlasts max_runtime."""
    upstream = {**written, "mode": job_type["upstream"]["mode"]}
    submit = upstream.get("submit") or {}
    if not submit.get("timeout") and job_type["max_runtime"] < DEFAULT_TIMEOUT_MS:
        upstream["submit"] = {**submit, "timeout": f"{job_type['max_runtime']}ms"}
    return upstream


def _tenant(tenant: Row, written: Row) -> Row:
    pools = {
        name: {limit: own[limit] for limit in ("max_running", "window") if own[limit] is not None}
        for name, own in tenant["pools"].items()
    }
    return {
        "share": tenant["share"],
        "billing": tenant["billing"],
        "max_running": tenant["max_running"],
        "max_priority": tenant["max_priority"],
        "job_types": tenant["job_types"],
        "prices": tenant["prices"],
        "pools": {name: own for name, own in pools.items() if own},
        **_budgets(tenant["budgets"]),
        **_low_credits(tenant["low_credits"]),
        "max_file_bytes": tenant["max_file_bytes"],
        "require_idempotency_key": tenant["require_idempotency_key"],
        "accepting": True,
        "declared": written,
    }
