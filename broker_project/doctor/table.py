"""All checks, in the order they are made. Each is a small function; `needs` are names of checks above it."""

from typing import Final

from broker_project.doctor import of_database, of_processes, of_redis, of_settings, of_work
from broker_project.doctor.findings import Check

_DATABASE: Final = ("database",)
_SCHEMA: Final = ("migrations",)

CHECKS: Final = (
    Check("database", of_database.reachable),
    Check("database_version", of_database.version, _DATABASE),
    Check("migrations", of_database.migrations, _DATABASE),
    Check("durability", of_database.durability, _DATABASE),
    Check("connections", of_database.connections, _DATABASE),
    Check("clock", of_database.clock, _DATABASE),
    Check("transactions", of_database.transactions, _DATABASE),
    Check("vacuum", of_database.vacuum, _DATABASE),
    Check("redis", of_redis.reachable),
    Check("redis_eviction", of_redis.eviction, ("redis",)),
    Check("redis_persistence", of_redis.persistence, ("redis",)),
    Check("broker", of_redis.broker),
    Check("debug", of_settings.debug),
    Check("crash_points", of_settings.crash_points),
    Check("keys", of_settings.keys),
    Check("field_keys", of_settings.field_keys, _SCHEMA),
    Check("key_peppers", of_settings.key_peppers, _SCHEMA),
    Check("times", of_settings.times),
    Check("hosts", of_settings.hosts),
    Check("public_url", of_settings.public_url, _SCHEMA),
    Check("deploy", of_settings.deploy),
    Check("disk", of_settings.disk),
    Check("processes", of_processes.processes, _DATABASE),
    Check("web", of_processes.web),
    Check("live", of_processes.live),
    Check("queues", of_redis.queues, ("broker",)),
    Check("sweep", of_processes.sweep, _SCHEMA),
    Check("pools", of_work.pools, _SCHEMA),
    Check("waiting", of_work.waiting, _SCHEMA),
    Check("closed_pools", of_work.closed_pools, _SCHEMA),
    Check("upstream_credits", of_work.upstream_credits, _SCHEMA),
    Check("accounts", of_work.accounts, _SCHEMA),
    Check("adapters", of_work.adapters, _SCHEMA),
    Check("dead_letters", of_work.dead_letters, _SCHEMA),
    Check("found_out", of_work.found_out, _SCHEMA),
    Check("results", of_work.results, _SCHEMA),
    Check("unknown", of_work.unknown, _SCHEMA),
    Check("attention", of_work.attention, _SCHEMA),
)
