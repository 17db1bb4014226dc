"""What the spike runs on: the demo's own configuration, or an operator's file with its upstreams replaced."""

import argparse
import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bench.demo.servers import MARK

# The calls of the simulator, in the place of an operator's own upstream.
_SUBMIT = {
    "path": "'/run'",
    "headers": {"Idempotency-Key": "dispatch_key"},
    "idempotent": True,
    "timeout": "60s",
    "success": "response.status == 200 && response.body.status == 'done'",
    "failed": "response.status == 200 && response.body.status == 'failed'",
    "units": "response.body.units",
}
_HEADERS = {"Authorization": "'Bearer ' + account.credential", MARK: "'1'"}
# Granted once to a tenant, and enough for any number of demos on one database.
_CREDITS = 1_000_000


@dataclass(frozen=True)
class Work:
    """What one tenant submits: so many jobs of a type with this payload."""

    job_type: str
    payload: Any
    jobs: int


@dataclass
class Scenario:
    """A configuration (the simulator's address is put in when it is known), its accounts and its work."""

    config: dict[str, Any]
    accounts: list[dict[str, Any]]
    tenants: dict[str, list[Work]]
    environment: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)  # job types of the file that the demo does not play

    @property
    def jobs(self) -> int:
        """Jobs of the whole spike."""
        return sum(work.jobs for works in self.tenants.values() for work in works)

    @property
    def sessions(self) -> int:
        """Sessions of the accounts of pools that get jobs."""
        types = self.config["job_types"]
        used = {_pool_of(types[work.job_type]) for works in self.tenants.values() for work in works}
        pools = (self.config["pools"][name]["accounts"] for name in used)
        return sum(account["sessions"] for accounts in pools for account in accounts.values())

    @property
    def announcement(self) -> str:
        """What is about to happen, in a sentence, or in two where something of the file is left out."""
        busy = sum(any(work.jobs for work in works) for works in self.tenants.values())
        said = (
            f"{_counted(self.jobs, 'job')} of {_counted(busy, 'tenant')} go through"
            f" {_counted(self.sessions, 'session')} of a fake upstream"
        )
        return (
            f"{said}. Not played (mode sync on one session alone is): {', '.join(self.left_out)}"
            if self.left_out
            else said
        )

    def written_for(self, simulator_url: str, path: Path) -> Path:
        """Writes the configuration with every upstream at `simulator_url`."""
        config = copy.deepcopy(self.config)
        for pool in config["pools"].values():
            pool["upstream"] = {"adapter": "http", "base_url": simulator_url, "headers": _HEADERS}
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        return path


def own_scenario(options: argparse.Namespace) -> Scenario:
    """The demo's own: one fair pool with one session to an account, one job type, tenants of equal share.

    The pool's name says how many sessions: a later demo with fewer must not find the others still on offer.
    """
    pool = f"demo-{options.sessions}"
    accounts = {f"acct-{n:03}": {"sessions": 1} for n in range(1, options.sessions + 1)}
    tenants = {
        f"tenant-{n:02}": {"share": 1, "credits": max(_CREDITS, 10 * options.jobs)}
        for n in range(1, options.tenants + 1)
    }
    config: dict[str, Any] = {
        "pools": {pool: {"order": "fair", "upstream": {}, "accounts": accounts}},
        "job_types": {
            "render": {
                "pool": pool,
                "price": "2 * payload.pages",
                "settle": "outcome.units",
                "max_runtime": "2m",
                "delivery": "at_least_once",
                "upstream": {"mode": "sync", "submit": _SUBMIT},
            }
        },
        "tenants": tenants,
    }
    works = {name: [Work("render", {"pages": 1}, options.jobs)] for name in tenants}
    return with_credentials(config, works)


def scenario_of(path: Path, options: argparse.Namespace) -> Scenario:
    """An operator's file: its pools, sessions, types, prices and tenants stay; what it calls becomes the simulator."""
    config = yaml.safe_load(path.read_text())
    types = {
        name: job_type
        for name, job_type in (config.get("job_types") or {}).items()
        if job_type.get("upstream", {}).get("mode", "sync") == "sync"
        and not job_type.get("requires")
        and (job_type.get("sessions") or 1) == 1
    }
    for job_type in types.values():
        job_type["upstream"] = {"mode": "sync", "submit": _SUBMIT}
    left_out = sorted(set(config.get("job_types") or {}) - set(types))
    config["job_types"] = types
    works: dict[str, list[Work]] = {}
    for name, tenant in (config.get("tenants") or {}).items():
        allowed = [kind for kind in (tenant or {}).get("job_types") or types if kind in types]
        if tenant and tenant.get("job_types"):
            tenant["job_types"] = allowed
        works[name] = [
            Work(kind, example(types[kind].get("payload_schema") or {}), max(1, options.jobs // len(allowed)))
            for kind in allowed
        ]
    return with_credentials(config, works, left_out)


def _pool_of(job_type: dict[str, Any]) -> str:
    return str(job_type.get("pool") or job_type["pools"][0])


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def example(schema: dict[str, Any]) -> Any:
    """The smallest payload that a plain JSON Schema accepts: defaults, enums, minima, required properties."""
    for name in ("const", "default"):
        if name in schema:
            return schema[name]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: example(properties.get(name, {"type": "string"})) for name in schema.get("required", [])}
    if kind == "array":
        return [example(schema.get("items", {"type": "string"}))] * int(schema.get("minItems", 0))
    if kind in {"number", "integer"}:
        return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    return {"string": "x" * max(1, int(schema.get("minLength", 1))), "boolean": True}.get(kind)


def with_credentials(config: dict[str, Any], works: dict[str, list[Work]], left_out: Sequence[str] = ()) -> Scenario:
    """Gives every account a credential of the simulator, by an environment variable."""
    accounts: list[dict[str, Any]] = []
    environment: dict[str, str] = {}
    for pool_name, pool in config["pools"].items():
        for name, account in pool["accounts"].items():
            variable = f"DEMO_CREDENTIAL_{len(accounts) + 1:04}"
            environment[variable] = f"sim-{pool_name}-{name}"
            account.pop("base_url", None)
            account["credential"] = {"env": variable}
            sessions = account.setdefault("sessions", 1)
            accounts.append({"name": f"{pool_name}/{name}", "credential": environment[variable], "sessions": sessions})
    return Scenario(config, accounts, works, environment, list(left_out))
