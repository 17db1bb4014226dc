"""What no single field shows: references between parts of the file, and declarations that would not hold when used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker_project.config.checks_calls import check_calls
from broker_project.config.findings import Findings, Place
from upstream.declared import merged

NOT_YET: Final = "this job type cannot take jobs yet"
ROOT: Final = Place()


@dataclass(frozen=True)
class Known:
    """What is stored already and stays: pools with their `upstream`, names of job types."""

    pools: Mapping[str, Mapping[str, Any]]
    job_types: set[str]


def check(declared: Mapping[str, Any], known: Known, findings: Findings) -> None:
    """Checks the parsed file; `known` is what it may refer to beside what it declares.

    What is declared but cannot be served yet without harm is marked `accepting: False`, with a warning. A mode that is not
    said becomes the preset's, else sync.
    """
    pools = {**known.pools, **{name: pool["upstream"] or {} for name, pool in declared["pools"].items()}}
    job_types = known.job_types | set(declared["job_types"])
    for name, pool in declared["pools"].items():
        _check_pool(pool, ROOT.field("pools").entry(name), findings)
    for name, job_type in declared["job_types"].items():
        place = ROOT.field("job_types").entry(name)
        _check_pools_of_type(job_type, set(pools), place, findings)
        upstreams = [pools.get(pool, {}) for pool in pools_of(job_type)] or [{}]
        if job_type["upstream"]:
            job_type["upstream"]["mode"] = merged(upstreams[0], job_type["upstream"]).get("mode") or "sync"
        _check_delivery(job_type, upstreams, place, findings)
        job_type["accepting"] = _served(job_type, place, findings)
        check_calls(job_type, upstreams, place.field("upstream"), findings)
    for name, tenant in declared["tenants"].items():
        _check_tenant(
            tenant, {"job_types": job_types, "pools": set(pools)}, ROOT.field("tenants").entry(name), findings
        )


def pools_of(job_type: Mapping[str, Any]) -> list[str]:
    return [job_type["pool"]] if job_type["pool"] else [name for name in job_type["pools"] if name]


def _check_pool(pool: dict[str, Any], place: Place, findings: Findings) -> None:
    upstream = merged(pool["upstream"] or {}, {})
    headers = [source for source in (upstream.get("headers") or {}).values() if source]
    if pool["balance"] and not any(account["credits"] is not None for account in pool["accounts"].values()):
        findings.later(place.field("balance"), "asks nobody: no account of this pool says its credits")
    for name, account in pool["accounts"].items():
        here = place.field("accounts").entry(name)
        account["accepting"] = account["refresh"] is None
        if not account["accepting"]:
            findings.later(here.field("refresh"), "is accepted, but this account cannot take jobs yet")
        elif account["credential"] is None and any("account.credential" in source for source in headers):
            findings.lacking(
                here.field("credential"), "is missing, and the pool's upstream.headers use account.credential"
            )
        if pool["upstream"] and not (upstream["base_url"] or account["base_url"]):
            in_pool = place.field("upstream").field("base_url")
            findings.lacking(here.field("base_url"), "is required, here or in the pool's upstream", in_pool)


def _check_pools_of_type(job_type: dict[str, Any], known: set[str], place: Place, findings: Findings) -> None:
    if bool(job_type["pool"]) == bool(job_type["pools"]):
        findings.lacking(
            place.field("pool"), "is required: one of pool: NAME and pools: [NAME, …]", place.field("pools")
        )
    for name in pools_of(job_type):
        if name not in known:
            findings.error(place.field("pool" if job_type["pool"] else "pools"), f"there is no pool {name!r}")
    if job_type["weight"] == "auto":
        findings.later(place.field("weight"), "is accepted but not enforced yet: auto counts as 1")
    if len(job_type["pools"]) > 1:
        findings.later(place.field("pools"), "is accepted but not enforced yet: only the first pool is used")


def _check_delivery(
    job_type: dict[str, Any], upstreams: Sequence[Mapping[str, Any]], place: Place, findings: Findings
) -> None:
    blocks = [merged(pool, job_type["upstream"] or {}) for pool in upstreams]
    found_out = all((block.get("submit") or {}).get("idempotent") or block.get("find") for block in blocks)
    submit = (job_type["upstream"] or {}).get("submit") or {}
    if job_type["delivery"] == "at_least_once" and not found_out and not job_type["accept_repeats"]:
        upstream = place.field("upstream")
        findings.lacking(
            place.field("delivery"),
            "at_least_once needs upstream.submit.idempotent: true, upstream.find, or accept_repeats: true",
            upstream.field("submit").field("idempotent"),
            upstream.field("find"),
            place.field("accept_repeats"),
        )
    timeout_ms, max_runtime_ms = submit.get("timeout"), job_type["max_runtime"]
    if timeout_ms and max_runtime_ms and timeout_ms > max_runtime_ms:
        findings.error(
            place.field("upstream").field("submit").field("timeout"),
            "is longer than max_runtime, within which the upstream certainly ends a session",
        )


def _served(job_type: dict[str, Any], place: Place, findings: Findings) -> bool:
    """Whether jobs can be taken as declared; ignoring any of these would call the upstream in a way nobody asked for."""
    reasons = []
    if (job_type["upstream"] or {}).get("mode") == "lease":
        reasons.append((place.field("upstream").field("mode"), f"lease is accepted, but {NOT_YET}"))
    if job_type["requires"]:
        reasons.append((place.field("requires"), f"is accepted, but {NOT_YET}"))
    if job_type["sessions"] > 1:
        reasons.append((place.field("sessions"), f"above 1 is accepted, but {NOT_YET}"))
    for where, reason in reasons:
        findings.later(where, reason)
    return not reasons


def _check_tenant(tenant: dict[str, Any], known: Mapping[str, set[str]], place: Place, findings: Findings) -> None:
    for number, name in enumerate(tenant["job_types"] or []):
        if name and name not in known["job_types"]:
            findings.error(place.field("job_types").entry(number), f"there is no job type {name!r}")
    for field, kind in (("prices", "job_types"), ("pools", "pools")):
        for name in tenant[field]:
            if name not in known[kind]:
                noun = "job type" if kind == "job_types" else "pool"
                findings.error(place.field(field).entry(name), f"there is no {noun} {name!r}")
