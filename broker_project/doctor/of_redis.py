"""Redis, which hurries things along, and the broker that carries Celery's messages (by default the same)."""

import re
from typing import Any

import redis
from django.conf import settings
from kombu import Connection
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker_project.doctor.findings import Finding, error, ok, some, warning

ANSWER_SECONDS = 2.0
REPLY_SECONDS = 1.0
NEARLY_FULL = 0.8


def reachable() -> Finding:
    try:
        server = _info("server")
    except redis.RedisError as failure:
        return error(f"{_place(settings.REDIS_URL)} does not answer: {failure}", "start it, or correct REDIS_URL")
    version = server.get("valkey_version") or server.get("redis_version", "?")
    return ok(f"{_place(settings.REDIS_URL)} answers ({server.get('server_name', 'redis')} {version})")


def eviction() -> Finding:
    memory = _info("memory")
    policy, used, most = memory.get("maxmemory_policy", "?"), memory.get("used_memory", 0), memory.get("maxmemory", 0)
    said = (
        f"maxmemory-policy {policy}, {used / 1e6:,.0f} MB used of {f'{most / 1e6:,.0f} MB' if most else 'all there is'}"
    )
    if policy not in ("noeviction", "?"):
        return error(said, "set maxmemory-policy noeviction: messages would be dropped silently")
    if most and used > NEARLY_FULL * most:
        return warning(said, "raise maxmemory: when it is full, messages are refused and the sweep does their work")
    return ok(said)


def persistence() -> Finding:
    """Nothing is lost without it but the time of a sweep; one that fails makes Redis refuse writes."""
    info = _info("persistence")
    failed = [name for name in ("aof_last_write_status", "aof_last_bgrewrite_status") if info.get(name, "ok") != "ok"]
    # Of snapshots only where any are taken: the status stands at "ok" otherwise.
    failed += [name for name in ("rdb_last_bgsave_status",) if info.get(name, "ok") != "ok"]
    if failed:
        return error(f"{some(failed)}: Redis could not write to its disk", "make room; until then it refuses writes")
    return ok(
        "append-only file" if info.get("aof_enabled") else "none but snapshots; it holds hints only, and may be lost"
    )


def broker() -> Finding:
    place = _place(settings.BROKER_URL)
    options: dict[str, Any] = {"connect_timeout": ANSWER_SECONDS}
    if settings.BROKER_URL.startswith("redis"):
        times = {"socket_timeout": ANSWER_SECONDS, "socket_connect_timeout": ANSWER_SECONDS}
        options["transport_options"] = {**times, "max_retries": 0}
    try:
        with Connection(settings.BROKER_URL, **options) as connection:
            connection.connect()
    except Exception as failure:  # noqa: BLE001  each transport raises errors of its own
        return error(f"{place} does not answer: {failure}", "start it, or correct BROKER_URL")
    return ok(f"{place} answers")


def queues() -> Finding:
    """Asks the workers themselves which queues they take tasks from."""
    from broker_project.celery import app

    wanted = {queue.name for queue in app.conf.task_queues}
    answers = app.control.inspect(timeout=REPLY_SECONDS).active_queues() or {}
    missing = sorted(wanted - {queue["name"] for queues in answers.values() for queue in queues})
    if missing:
        return error(
            f"no worker answers that takes tasks from {some(missing)} ({len(answers)} answered)",
            "start one: `celery -A broker_project worker -Q QUEUE` (see Procfile)",
        )
    return ok(f"{some(sorted(wanted))}: taken by {some(sorted(answers))}")


def _info(section: str) -> dict[str, Any]:
    with redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=ANSWER_SECONDS,
        socket_connect_timeout=ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
    ) as client:
        info: dict[str, Any] = client.info(section)
        return info


def _place(url: str) -> str:
    """An address without its login."""
    return re.sub(r"//[^/]*@", "//", url)
