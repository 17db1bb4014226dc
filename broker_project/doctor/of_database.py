"""The database: there, new enough, migrated, durable, with room for our connections, and cleaning up behind us."""

import time

import psycopg2
from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from broker_project.doctor.findings import Finding, error, ok, some, warning
from broker_project.doctor.of_processes import EXPECTED, is_role
from jobs.queries import server
from upstream.quantities import counted

ANSWER_SECONDS = 3
OLDEST_VERSION = 15
NEARLY_FULL = 0.8
CLOCK_SECONDS, WRONG_CLOCK_SECONDS = 1.0, 30.0
LONG_TRANSACTION_SECONDS, VERY_LONG_TRANSACTION_SECONDS = 60, 600
OLD_SNAPSHOT_TRANSACTIONS = 1_000_000
DEAD_ROWS, DEAD_SHARE = 50_000, 0.5
WRAPAROUND_TRANSACTIONS = 1_500_000_000  # of 2,147,483,647


def reachable() -> Finding:
    """By a connection of its own, which gives up sooner than those of the pool."""
    place = connection.settings_dict
    address = f"{place['HOST']}:{place['PORT'] or 5432}/{place['NAME']}"
    try:
        psycopg2.connect(**{**connection.get_connection_params(), "connect_timeout": ANSWER_SECONDS}).close()
    except psycopg2.OperationalError as failure:
        words = next(iter(str(failure).splitlines()), "").rpartition("failed: ")[2]
        hint = "" if settings.DATABASE_URL else " (DATABASE_URL is not set)"
        return error(f"{address} does not answer{hint}: {words}", "start it, or correct DATABASE_URL")
    return ok(f"{address} answers")


def version() -> Finding:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        text = cursor.fetchone()[0]
    if int(text.partition(".")[0]) < OLDEST_VERSION:
        return error(f"PostgreSQL {text}", f"Berth needs PostgreSQL {OLDEST_VERSION} or newer")
    return ok(f"PostgreSQL {text}")


def migrations() -> Finding:
    loader = MigrationExecutor(connection).loader
    applied = set(loader.applied_migrations)
    missing = [f"{app}.{name}" for app, name in loader.graph.nodes if (app, name) not in applied]
    if missing:
        return error(f"not applied: {some(sorted(missing))}", "`manage.py migrate`")
    strange = [f"{app}.{name}" for app, name in applied - set(loader.graph.nodes) if app in loader.migrated_apps]
    if strange:
        return warning(f"not known here: {some(sorted(strange))}", "this code is older than the schema: update it")
    return ok(f"all {len(applied)} applied")


def durability() -> Finding:
    said = server.settings(["fsync", "full_page_writes", "synchronous_commit"])
    unsafe = [f"{name} is off" for name, value in said.items() if value == "off"]
    if unsafe:
        return error("; ".join(unsafe), "turn it on: what a crash takes back was promised to somebody")
    return ok(", ".join(f"{name} {value}" for name, value in said.items()))


def connections() -> Finding:
    """As many processes as are connected, each with all its connections, against what the server has for our role."""
    room = server.room()
    seen = sum(row["processes"] for row in server.processes() if is_role(row["role"]))
    count, whose = (
        (seen, f"{counted(seen, 'process', 'processes')} seen") if seen else (len(EXPECTED), "as `up` starts")
    )
    needed = count * settings.DATABASE_POOL_SIZE
    said = (
        f"up to {needed} for us (DATABASE_POOL_SIZE {settings.DATABASE_POOL_SIZE}, {whose}),"
        f" {room['allowed']} allowed, {room['used']} in use"
    )
    advice = "lower DATABASE_POOL_SIZE, raise max_connections, or put a pooler between"
    if needed > room["allowed"]:
        return error(said, advice)
    return warning(said, advice) if needed > NEARLY_FULL * room["allowed"] else ok(said)


def clock() -> Finding:
    before = time.time()
    there = server.now()
    after = time.time()
    ahead = there - (before + after) / 2
    certain = max(0.0, abs(ahead) - (after - before) / 2)
    if certain < CLOCK_SECONDS:
        return ok(f"within {CLOCK_SECONDS:g} s of this machine's")
    said = f"{abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
    advice = "set both by NTP: due times are the database's, countdowns and log lines this machine's"
    return error(said, advice) if certain > WRONG_CLOCK_SECONDS else warning(said, advice)


def transactions() -> Finding:
    oldest, snapshot = server.oldest_transaction(), server.transactions()["oldest_snapshot"]
    said = f"oldest snapshot {snapshot:,} transactions ago"
    seconds = 0.0 if oldest is None else oldest["seconds"]
    if oldest is not None and seconds >= LONG_TRANSACTION_SECONDS:
        said = f"{oldest['name']} (pid {oldest['pid']}, {oldest['state']}) is in one since {seconds:,.0f} s; {said}"
    advice = "end it: nothing that died since it began can be cleaned up, and the queue gets slower"
    if seconds > VERY_LONG_TRANSACTION_SECONDS:
        return error(said, advice)
    if seconds > LONG_TRANSACTION_SECONDS or snapshot > OLD_SNAPSHOT_TRANSACTIONS:
        return warning(said, f"{advice} (also pg_prepared_xacts, pg_replication_slots)")
    return ok(f"none open for long; {said}")


def vacuum() -> Finding:
    said = server.settings(["autovacuum", "track_counts"])
    if off := [name for name, value in said.items() if value == "off"]:
        return error(f"{some(off)} is off", "turn it on: without it every table here grows and slows down")
    if (age := server.oldest_row_transactions()) > WRAPAROUND_TRANSACTIONS:
        return error(f"the oldest row is {age:,} transactions old", "`VACUUM FREEZE` before writes are refused")
    dirty = [
        f"{row['name']} ({row['dead']:,} dead rows of {row['rows']:,})"
        for row in server.tables()
        if row["dead"] > DEAD_ROWS and row["dead"] > DEAD_SHARE * row["rows"]
    ]
    if dirty:
        return warning(some(dirty), "look for old transactions; else let autovacuum work more")
    return ok("autovacuum is on and keeps up")
