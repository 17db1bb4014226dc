"""Numbers for Prometheus taken from rows: how full and how fast the pools are. Counted at most every five seconds.

`docs/operations.md` says what each one means and when to be alarmed.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from django.db import Error
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from jobs.queries import dead_letters, health_of_accounts, occupancy, server
from pool.states import RESOURCE
from statemachine.sql import Row

logger = logging.getLogger(__name__)
COUNTED_SECONDS = 5.0
recent = occupancy.Recent(COUNTED_SECONDS)
recent_server = occupancy.Recent(COUNTED_SECONDS, lambda: [server.transactions(), *server.connections()])
recent_health = occupancy.Recent(
    COUNTED_SECONDS, lambda: [*health_of_accounts.pools_at_rest(), *health_of_accounts.in_trouble()]
)
recent_redrives = occupancy.Recent(COUNTED_SECONDS, dead_letters.progress)

# name, what it says, key in a row of `occupancy.by_pool`
OF_POOLS = (
    ("berth_depth_jobs", f"Jobs that wait. Above {occupancy.MOST_COUNTED} it says `at least`.", "depth"),
    ("berth_delayed_jobs", "Jobs that wait for a time: run_at or a back-off.", "delayed"),
    ("berth_unaffordable_jobs", "Jobs that wait until an upstream account can pay for them.", "unaffordable"),
    ("berth_lag_seconds", "Age of the oldest job whose turn it is.", "lag_seconds"),
    ("berth_oldest_waiting_seconds", "Age of the oldest job that could run.", "oldest_waiting_seconds"),
    ("berth_oldest_running_seconds", "Since the oldest attempt that is open was opened.", "oldest_running_seconds"),
    ("berth_dead_letters", f"Failed jobs nobody put aside; up to {occupancy.MOST_DEAD}.", "dead_letters"),
    ("berth_free_sessions", "Sessions that could be given to a job now.", "free_sessions"),
    ("berth_utilisation_ratio", "Busy sessions of those that are not offline.", "utilisation"),
    ("berth_throughput_jobs_per_second", "Jobs that ended, of the last minute.", "throughput_per_second"),
    ("berth_jobs_needing_attention", "Jobs that nobody but an operator can end.", "needs_attention"),
    ("berth_unknown_attempts", "Attempts whose outcome is being found out.", "unknown"),
)
QUANTILES = (("0.5", "handoff_p50_ms"), ("0.99", "handoff_p99_ms"))


class Rows(Collector):
    """What the rows say, by pool, and what the database server says."""

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing is counted at registration."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        read = GaugeMetricFamily("berth_rows_read", "1 when the database answered.", value=None)
        try:
            pools, (oldest, *connections) = recent.rows(), recent_server.rows()
            health, redrives = recent_health.rows(), recent_redrives.rows()
        except Error as error:
            logger.warning("the rows could not be counted: %s", error)
            read.add_metric([], 0.0)
            yield read
            return
        read.add_metric([], 1.0)
        yield read
        yield from _of_pools(pools)
        yield from _of_health(pools, health)
        yield from _of_redrives(redrives)
        yield from _of_server(oldest, connections)


def _of_pools(pools: Sequence[Row]) -> Iterator[GaugeMetricFamily]:
    for name, meaning, key in OF_POOLS:
        gauge = GaugeMetricFamily(name, meaning, labels=["pool"])
        for pool in pools:
            gauge.add_metric([pool["name"]], pool[key])
        yield gauge
    closed = GaugeMetricFamily("berth_pool_closed", "1 while the pool is closed after a restore.", labels=["pool"])
    for pool in pools:
        closed.add_metric([pool["name"]], float(pool["quarantined_until"] is not None))
    yield closed
    jobs = GaugeMetricFamily("berth_jobs", "Jobs that have not ended, by state.", labels=["pool", "state"])
    sessions = GaugeMetricFamily("berth_sessions", "Upstream sessions, by state.", labels=["pool", "state"])
    handoff = GaugeMetricFamily(
        "berth_handoff_ms", "From a session's end to its next job's call, lately.", labels=["pool", "quantile"]
    )
    for pool in pools:
        for state, number in pool["jobs"].items():
            jobs.add_metric([pool["name"], state], number)
        for state in RESOURCE.states:
            sessions.add_metric([pool["name"], state], pool["sessions"].get(state, 0))
        for quantile, key in QUANTILES:
            if pool[key] is not None:
                handoff.add_metric([pool["name"], quantile], pool[key])
    yield from (jobs, sessions, handoff)


def _of_health(pools: Sequence[Row], health: Sequence[Row]) -> Iterator[GaugeMetricFamily]:
    accounts = GaugeMetricFamily(
        "berth_account_open",
        "1 while the account is quarantined, on probe or refused; only of accounts that have failed.",
        labels=["pool", "account"],
    )
    for row in health:
        if "account" in row:
            accounts.add_metric([row["pool"], row["account"]], float(bool(row["is_open"] or row["refused"])))
    common = GaugeMetricFamily("berth_pool_open", "1 while the pool rests as one, or is on probe.", labels=["pool"])
    resting = {row["pool"] for row in health if "account" not in row}
    for pool in pools:
        common.add_metric([pool["name"]], float(pool["name"] in resting))
    yield from (accounts, common)


def _of_redrives(redrives: Sequence[Row]) -> Iterator[GaugeMetricFamily]:
    running = GaugeMetricFamily("berth_redrives_running", "Redrives of dead letters that run.")
    running.add_metric([], sum(redrive["state"] == "running" for redrive in redrives))
    jobs = GaugeMetricFamily(
        "berth_redrive_jobs",
        "Jobs of a redrive that runs, or ended within the hour, by what became of them.",
        labels=["redrive", "outcome"],
    )
    for redrive in redrives:
        for outcome in ("replayed", "refused"):
            jobs.add_metric([str(redrive["id"]), outcome], redrive[outcome])
    yield from (running, jobs)


def _of_server(oldest: Row, connections: Sequence[Row]) -> Iterator[GaugeMetricFamily]:
    yield GaugeMetricFamily(
        "berth_oldest_transaction_seconds", "Since the oldest open transaction began.", value=oldest["oldest_seconds"]
    )
    yield GaugeMetricFamily(
        "berth_oldest_snapshot_transactions",
        "Transactions since the oldest snapshot: what died since then cannot be cleaned up.",
        value=oldest["oldest_snapshot"],
    )
    gauge = GaugeMetricFamily("berth_database_connections", "Connections to the database.", labels=["role", "state"])
    for row in connections:
        gauge.add_metric([row["role"], row["state"]], row["connections"])
    yield gauge


ROWS = CollectorRegistry()
ROWS.register(Rows())


def text() -> bytes:
    """All numbers as Prometheus reads them: the counters of this process, or of all that share a folder; then the rows."""
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR", "")
    return generate_latest(_of_all_processes(Path(folder)) if folder else REGISTRY) + generate_latest(ROWS)


def _of_all_processes(folder: Path) -> CollectorRegistry:
    registry = CollectorRegistry()
    _forget_gauges_of_the_dead(folder)
    MultiProcessCollector(registry, str(folder))  # type: ignore[no-untyped-call]
    ProcessCollector(registry=registry)
    return registry


def _forget_gauges_of_the_dead(folder: Path) -> None:
    """Counters of a process that ended still count; its gauges say what is not so any more."""
    for file in folder.glob("gauge_live*_*.db"):
        pid = file.stem.rpartition("_")[2]
        if not Path("/proc", pid).exists() and Path("/proc/self").exists():
            file.unlink(missing_ok=True)
