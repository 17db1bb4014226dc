"""What no single field shows: references between parts of the file, and declarations that would not hold when used."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from broker_project.config.findings import Findings, Place
from upstream.balances import compile_balance
from upstream.spec import SpecError, compile_submit

NOT_YET: Final = "this job type cannot take jobs yet"
ROOT: Final = Place()


def check(declared: Mapping[str, Any], known: Mapping[str, set[str]], findings: Findings) -> None:
    """Checks the parsed file; `known` are the names of pools and job types it may refer to.

    What is declared but cannot be served yet without harm is marked `accepting: False`, with a warning.
    """
    for name, pool in declared["pools"].items():
        _check_pool(pool, ROOT.field("pools").entry(name), findings)
    for name, job_type in declared["job_types"].items():
        place = ROOT.field("job_types").entry(name)
        _check_pools_of_type(job_type, known["pools"], place, findings)
        _check_delivery(job_type, place, findings)
        job_type["accepting"] = _served(job_type, declared["pools"], place, findings)
        _check_calls(job_type, declared["pools"], place, findings)
    for name, tenant in declared["tenants"].items():
        _check_tenant(tenant, known, ROOT.field("tenants").entry(name), findings)


def pools_of(job_type: Mapping[str, Any]) -> list[str]:
    return [job_type["pool"]] if job_type["pool"] else [name for name in job_type["pools"] if name]


def _check_pool(pool: dict[str, Any], place: Place, findings: Findings) -> None:
    upstream = pool["upstream"] or {}
    if upstream.get("preset"):
        findings.later(place.field("upstream").field("preset"))
    headers = [source for source in upstream.get("headers", {}).values() if source]
    if pool["balance"] and not any(account["credits"] is not None for account in pool["accounts"].values()):
        findings.later(place.field("balance"), "asks nobody: no account of this pool says its credits")
    for name, account in pool["accounts"].items():
        here = place.field("accounts").entry(name)
        account["accepting"] = account["refresh"] is None
        if not account["accepting"]:
            findings.later(here.field("refresh"), "is accepted, but this account cannot take jobs yet")
        elif account["credential"] is None and any("account.credential" in source for source in headers):
            findings.error(
                here.field("credential"), "is missing, and the pool's upstream.headers use account.credential"
            )
        if pool["upstream"] and not (upstream["base_url"] or upstream["preset"] or account["base_url"]):
            findings.error(here.field("base_url"), "is required, here or in the pool's upstream")


def _check_pools_of_type(job_type: dict[str, Any], known: set[str], place: Place, findings: Findings) -> None:
    if bool(job_type["pool"]) == bool(job_type["pools"]):
        findings.error(place.field("pool"), "is required: one of pool: NAME and pools: [NAME, …]")
    for name in pools_of(job_type):
        if name not in known:
            findings.error(place.field("pool" if job_type["pool"] else "pools"), f"there is no pool {name!r}")
    if job_type["weight"] == "auto":
        findings.later(place.field("weight"), "is accepted but not enforced yet: auto counts as 1")
    if len(job_type["pools"]) > 1:
        findings.later(place.field("pools"), "is accepted but not enforced yet: only the first pool is used")


def _check_delivery(job_type: dict[str, Any], place: Place, findings: Findings) -> None:
    upstream = job_type["upstream"] or {}
    submit = upstream.get("submit") or {}
    if job_type["delivery"] == "at_least_once" and not (
        submit.get("idempotent") or upstream.get("find") or job_type["accept_repeats"]
    ):
        findings.error(
            place.field("delivery"),
            "at_least_once needs upstream.submit.idempotent: true, upstream.find, or accept_repeats: true",
        )
    timeout_ms, max_runtime_ms = submit.get("timeout"), job_type["max_runtime"]
    if timeout_ms and max_runtime_ms and timeout_ms > max_runtime_ms:
        findings.error(
            place.field("upstream").field("submit").field("timeout"),
            "is longer than max_runtime, within which the upstream certainly ends a session",
        )


def _served(job_type: dict[str, Any], pools: Mapping[str, Any], place: Place, findings: Findings) -> bool:
    """Whether jobs can be taken as declared; ignoring any of these would call the upstream in a way nobody asked for."""
    upstream = job_type["upstream"] or {"mode": "sync", "find": None, "submit": None}
    reasons = []
    if upstream["mode"] != "sync":
        reasons.append((place.field("upstream").field("mode"), f"{upstream['mode']} is accepted, but {NOT_YET}"))
    if job_type["requires"]:
        reasons.append((place.field("requires"), f"is accepted, but {NOT_YET}"))
    if job_type["sessions"] > 1:
        reasons.append((place.field("sessions"), f"above 1 is accepted, but {NOT_YET}"))
    idempotent = (upstream["submit"] or {}).get("idempotent")
    if job_type["delivery"] == "at_least_once" and not idempotent and not job_type["accept_repeats"]:
        reasons.append((place.field("delivery"), f"at_least_once by upstream.find is accepted, but {NOT_YET}"))
    if any(_upstream_of(pools, name).get("preset") for name in pools_of(job_type)):
        reasons.append((place.field("pool"), f"has an upstream.preset; that is accepted, but {NOT_YET}"))
    for where, reason in reasons:
        findings.later(where, reason)
    return not reasons


def _check_calls(job_type: dict[str, Any], pools: Mapping[str, Any], place: Place, findings: Findings) -> None:
    upstream = job_type["upstream"]
    pool_upstreams = [_upstream_of(pools, name) for name in pools_of(job_type)]
    # A preset fills in what is not said, and an adapter of one's own reads the block its own way.
    if not upstream or any(pool.get("preset") or pool.get("adapter", "http") != "http" for pool in pool_upstreams):
        return
    here = place.field("upstream")
    submit = upstream["submit"] or {}
    if not submit.get("path"):
        findings.error(here.field("submit").field("path"), "is required, an expression such as \"'/run'\"")
    for name, block, field, why in _required(upstream):
        if not block.get(field):
            findings.error(here.field(name).field(field), why)
    for pool in pool_upstreams or [{}]:
        headers = {**pool.get("headers", {}), **submit.get("headers", {})}
        sources = [submit.get("path"), submit.get("body"), *headers.values()]
        if submit.get("idempotent") and not any("dispatch_key" in (source or "") for source in sources):
            findings.error(
                here.field("submit").field("idempotent"),
                "true means that the upstream deduplicates by the dispatch key, but no header, path or body sends it",
            )
            return


def check_compiled(rows: Mapping[str, Mapping[str, Any]], pools: Mapping[str, Any], findings: Findings) -> None:
    """The last check: what will be stored is compiled as the adapter compiles it."""
    for name, pool in pools.items():
        if "balance" not in pool["upstream"]:
            continue
        try:
            compile_balance(pool["upstream"])
        except SpecError as error:
            where = ROOT.field("pools").entry(name)
            # A header of every call may need a job, which there is none here.
            own = error.field.startswith("headers.")
            hint = "; balance.headers may name the header too, with another expression or null" if own else ""
            findings.error(where.field("upstream") if own else where, f"{error}{hint}")
    for name, row in rows.items():
        pool = pools.get(row["pool"], {}).get("upstream", {})
        if pool.get("adapter", "http") != "http" or not row["upstream"].get("submit"):
            continue
        try:
            compile_submit({**pool, **row["upstream"]})
        except SpecError as error:
            findings.error(ROOT.field("job_types").entry(name).field("upstream"), str(error))


def _required(upstream: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], str, str]]:
    """(block, its content, field, why) of what a mode or a block cannot do without."""
    mode = upstream["mode"]
    if mode in ("poll", "callback"):
        yield "submit", upstream["submit"] or {}, "reference", f"is required in mode {mode}: what is asked for later"
        yield "poll", upstream["poll"] or {}, "path", f"is required in mode {mode}: where the outcome is asked for"
    for name in ("cancel", "find"):
        if upstream[name] is not None:
            yield name, upstream[name], "path", "is required"


def _check_tenant(tenant: dict[str, Any], known: Mapping[str, set[str]], place: Place, findings: Findings) -> None:
    for number, name in enumerate(tenant["job_types"] or []):
        if name and name not in known["job_types"]:
            findings.error(place.field("job_types").entry(number), f"there is no job type {name!r}")
    for field, kind in (("prices", "job_types"), ("pools", "pools")):
        for name in tenant[field]:
            if name not in known[kind]:
                noun = "job type" if kind == "job_types" else "pool"
                findings.error(place.field(field).entry(name), f"there is no {noun} {name!r}")


def _upstream_of(pools: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (pools.get(name) or {}).get("upstream") or {}
    return found
