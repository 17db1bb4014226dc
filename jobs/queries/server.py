"""What the database server tells of itself: who is connected, what holds back its vacuum. Only what our role may see."""

from collections.abc import Sequence

from statemachine.sql import Row, fetch

# Sessions of others are counted as `other`, so that a metric does not get a series for each name somebody thought of.
_CONNECTIONS = """
SELECT CASE WHEN application_name LIKE 'berth %' THEN split_part(application_name, ' ', 2) ELSE 'other' END AS role,
       CASE WHEN state LIKE 'idle in transaction%' THEN 'in_transaction' WHEN state = 'idle' THEN 'idle' ELSE 'active' END
       AS state, count(*) AS connections
FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' GROUP BY 1, 2 ORDER BY 1, 2"""

# Another process of the same host and role has another pid in the name of its connections.
_PROCESSES = """
SELECT split_part(application_name, ' ', 2) AS role, count(DISTINCT (client_addr, application_name)) AS processes,
       EXTRACT(EPOCH FROM clock_timestamp() - max(state_change))::float AS quiet_seconds
FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'berth %' AND pid <> pg_backend_pid()
GROUP BY 1 ORDER BY 1"""

# A prepared transaction or a replication slot keeps rows as a session does, and nobody sees it in pg_stat_activity.
_TRANSACTIONS = """
SELECT COALESCE((SELECT EXTRACT(EPOCH FROM clock_timestamp() - min(xact_start)) FROM pg_stat_activity
                 WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()),
                0)::float AS oldest_seconds,
       GREATEST((SELECT max(GREATEST(age(backend_xmin), age(backend_xid))) FROM pg_stat_activity
                 WHERE (datname = current_database() OR datname IS NULL) AND pid <> pg_backend_pid()),
                (SELECT max(age(transaction)) FROM pg_prepared_xacts WHERE database = current_database()),
                (SELECT max(GREATEST(age(xmin), age(catalog_xmin))) FROM pg_replication_slots), 0)
       AS oldest_snapshot"""

_OLDEST = """
SELECT pid, COALESCE(NULLIF(application_name, ''), usename, '?') AS name, state,
       EXTRACT(EPOCH FROM clock_timestamp() - xact_start)::float AS seconds
FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
  AND xact_start IS NOT NULL
ORDER BY xact_start LIMIT 1"""

# reserved_connections exists since PostgreSQL 16; -1 is no limit.
_ROOM = """
SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used,
       LEAST(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
             - COALESCE(current_setting('reserved_connections', true), '0')::int,
             (SELECT NULLIF(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user),
             (SELECT NULLIF(datconnlimit, -1) FROM pg_database WHERE datname = current_database())) AS allowed"""


def connections() -> list[Row]:
    """Connections to our database: role (of ours, else `other`), state (active, idle, in_transaction), connections."""
    return fetch(_CONNECTIONS)


def processes() -> list[Row]:
    """Processes of ours that are connected, by role: processes, quiet_seconds since one of them did anything."""
    return fetch(_PROCESSES)


def transactions() -> Row:
    """oldest_seconds: since the oldest open transaction began. oldest_snapshot: how many transactions have begun since the
    oldest snapshot, or open transaction that wrote; rows that died since then cannot be cleaned up.
    """
    return fetch(_TRANSACTIONS)[0]


def oldest_transaction() -> Row | None:
    """pid, name, state and seconds of the longest open transaction."""
    return next(iter(fetch(_OLDEST)), None)


def settings(names: Sequence[str]) -> dict[str, str]:
    """These settings of the server, as our sessions have them."""
    rows = fetch("SELECT name, setting FROM pg_settings WHERE name = ANY(%s) ORDER BY name", [list(names)])
    return {row["name"]: row["setting"] for row in rows}


def room() -> Row:
    """Connections: allowed to our role in this database, used now by whoever."""
    return fetch(_ROOM)[0]


def now() -> float:
    """The database's clock, in seconds since 1970."""
    return float(fetch("SELECT EXTRACT(EPOCH FROM clock_timestamp())::float AS now")[0]["now"])


def oldest_row_transactions() -> int:
    """Transactions since the oldest row of this database that is not frozen; at two thousand million writes are refused."""
    return int(fetch("SELECT age(datfrozenxid) AS age FROM pg_database WHERE datname = current_database()")[0]["age"])


def tables() -> list[Row]:
    """Our tables by the server's own counts: name, rows, dead."""
    return fetch(
        "SELECT relname AS name, n_live_tup AS rows, n_dead_tup AS dead FROM pg_stat_user_tables ORDER BY relname"
    )
