"""Which Postgres, Redis and broker a run used, and whether the database holds work that the demo must not touch."""

import contextlib
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import kombu
import psycopg2
import redis

CONNECT_SECONDS = 5
EMBEDDED, YOURS = "embedded", "yours"
# The demo's own pools carry this header: those without it belong to somebody.
MARK = "X-Berth-Demo"


def described(run: dict[str, Any]) -> dict[str, str]:
    """`{postgres, redis, broker}`: product, version, and whose it is. `run` is what `run.json` holds."""
    roles = {process["role"] for process in run["processes"]}
    redis_url = run["redis_url"]
    broker_url = run["env"].get("BROKER_URL", redis_url)
    said = {
        "postgres": f"{_postgres(run['database_url'])} ({EMBEDDED if 'postgres' in roles else YOURS})",
        "redis": f"{_redis(redis_url)} ({EMBEDDED if 'valkey' in roles else YOURS})",
        "broker": "the same Redis",
    }
    if broker_url != redis_url:
        said["broker"] = f"{_broker(broker_url)} ({YOURS})"
    return said


def foreign_pools(database_url: str, pools: list[str], job_types: list[str]) -> list[str]:
    """Pools that the demo's configuration would change and that the demo did not make, with their upstreams."""
    with contextlib.closing(_connected(database_url)) as connection, connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT DISTINCT p.name, p.upstream ->> 'base_url' FROM pool_pool p
            LEFT JOIN jobs_jobtype t ON t.pool_id = p.id
            WHERE (p.name = ANY(%s) OR t.name = ANY(%s)) AND NOT coalesce(p.upstream -> 'headers' ? %s, false)
            ORDER BY 1""",
            [pools, job_types, MARK],
        )
        return [f"{name} ({base_url})" for name, base_url in cursor.fetchall()]


def _connected(database_url: str) -> Any:
    """libpq knows fewer names of its scheme than Django's settings take."""
    parts = urlsplit(database_url)
    return psycopg2.connect(urlunsplit(parts._replace(scheme="postgresql")), connect_timeout=CONNECT_SECONDS)


def _postgres(database_url: str) -> str:
    with contextlib.closing(_connected(database_url)) as connection:
        return f"PostgreSQL {connection.get_parameter_status('server_version').partition(' ')[0]}"


def _redis(url: str) -> str:
    with redis.Redis.from_url(url, socket_connect_timeout=CONNECT_SECONDS) as client:
        facts: dict[str, Any] = client.info("server")
    if "valkey_version" in facts:
        return f"Valkey {facts['valkey_version']}"
    return f"Redis {facts['redis_version']}"


def _broker(url: str) -> str:
    if urlsplit(url).scheme.startswith("redis"):
        return _redis(url)
    with kombu.Connection(url, connect_timeout=CONNECT_SECONDS) as connection:
        facts = getattr(connection.connection, "server_properties", {})
    return f"{facts.get('product', urlsplit(url).scheme)} {facts.get('version', '')}".strip()
