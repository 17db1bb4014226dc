"""Numbers for Prometheus taken from rows: how full the pools are. Counted at most every five seconds."""

import logging
from collections.abc import Iterator, Sequence

from django.db import Error
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from jobs.queries import occupancy
from pool.states import RESOURCE
from statemachine.sql import Row

logger = logging.getLogger(__name__)
recent = occupancy.Recent(5.0)


class Rows(Collector):
    """Pending, assigned and processing jobs, lag, and sessions by state, per pool."""

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing is counted at registration."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        read = GaugeMetricFamily("berth_rows_read", "1 when the database answered.", value=None)
        try:
            rows: Sequence[Row] = recent.rows()
            read.add_metric([], 1.0)
        except Error as error:
            logger.warning("the rows could not be counted: %s", error)
            rows = []
            read.add_metric([], 0.0)
        yield read
        yield from _gauges(rows)


def _gauges(rows: Sequence[Row]) -> Iterator[GaugeMetricFamily]:
    jobs = GaugeMetricFamily("berth_jobs", "Jobs that have not ended, by state.", labels=["pool", "state"])
    lag = GaugeMetricFamily("berth_lag_seconds", "Age of the oldest job whose turn it is.", labels=["pool"])
    sessions = GaugeMetricFamily("berth_sessions", "Upstream sessions, by state.", labels=["pool", "state"])
    for row in rows:
        lag.add_metric([row["name"]], row["lag_seconds"])
        for state, number in row["jobs"].items():
            jobs.add_metric([row["name"], state], number)
        for state in RESOURCE.states:
            sessions.add_metric([row["name"], state], row["sessions"].get(state, 0))
    yield from (jobs, lag, sessions)


ROWS = CollectorRegistry()
ROWS.register(Rows())
