"""How we know that a process does its work, not only that it runs."""

import re
import socket
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker_project.supervisor.processes import Entry

ANSWER_SECONDS = 2
AMQP_PORTS = {"amqp": 5672, "pyamqp": 5672, "amqps": 5671}

# Loopback never goes through a proxy that the environment may name.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answers_ok(url: str) -> bool:
    """Whether a GET is answered with 200 within two seconds."""
    try:
        with _direct.open(url, timeout=ANSWER_SECONDS) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def worker_sweeps(entry: Entry) -> bool:
    """A worker writes `name@host sweeps.` once it does its work by itself, with or without a broker."""
    return re.search(r"@\S+ sweeps\.", entry.log_text()) is not None


def worker_takes_messages(entry: Entry) -> bool:
    """Celery writes `name@host ready.` once it has reached the broker."""
    return re.search(r"@\S+ ready\.", entry.log_text()) is not None


def broker_answers(url: str) -> bool:
    """Whether Redis answers a ping, or another broker takes a connection, within two seconds."""
    parts = urlsplit(url)
    try:
        if parts.scheme.startswith("redis"):
            once = Retry(NoBackoff(), 0)
            bounds = {"socket_timeout": ANSWER_SECONDS, "socket_connect_timeout": ANSWER_SECONDS}
            with redis.Redis.from_url(url, retry=once, **bounds) as client:
                return bool(client.ping())
        if parts.hostname and (port := parts.port or AMQP_PORTS.get(parts.scheme)):
            socket.create_connection((parts.hostname, port), ANSWER_SECONDS).close()
    except (redis.RedisError, OSError):
        return False
    return True  # or of a kind that cannot be asked from here
