"""What can happen to Redis and Postgres, short of losing what was committed."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg2
import redis

from tests.chaos.experiments import Experiment
from tests.chaos.world import World
from tests.whole.running import wait_for

QUEUES: Final = ("assign", "transitions", "upstream")
FAULT_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.1
COPIES: Final = 5
BACK_SECONDS: Final = 30.0
CROWD: Final = "crowd"  # a role that has nothing to do with Berth
_MAKE_CROWD = f"""
DO $$ BEGIN CREATE ROLE {CROWD} SUPERUSER LOGIN PASSWORD '{CROWD}'; EXCEPTION WHEN duplicate_object THEN NULL; END $$"""
_END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename <> %s AND backend_type = 'client backend'"""
# What a full disk answers to whoever wants to write: SQLSTATE 53100, by a trigger, since filling one takes a disk.
_FULL_FUNCTION = """
CREATE OR REPLACE FUNCTION chaos_disk_full() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$"""
_WRITTEN = ("jobs_job", "jobs_attempt", "jobs_evidence", "credits_hold", "credits_transfer", "pool_resource")


def _again(act: Callable[[], Any], lasts: float = FAULT_SECONDS) -> None:
    """Does it over and over for so long."""
    end = time.monotonic() + lasts
    while time.monotonic() < end:
        act()
        time.sleep(PAUSE_SECONDS)


@contextmanager
def _hints(world: World) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(world.servers.run["redis_url"], socket_timeout=5) as client:
        yield client


def empty_redis(world: World, *, lasts: float = FAULT_SECONDS) -> None:
    with _hints(world) as client:
        _again(client.flushall, lasts)


def lose_messages(world: World) -> None:
    """Those that wait in the lists; what was taken of them, a worker has already."""
    with _hints(world) as client:
        _again(lambda: client.delete(*QUEUES))


def double_messages(world: World) -> None:
    def double() -> None:
        for queue in QUEUES:
            for message in client.lrange(queue, 0, -1):
                client.lpush(queue, *[message] * COPIES)

    with _hints(world) as client:
        _again(double)


def stop_redis(world: World) -> None:
    world.send("servers/valkey", signal.SIGSTOP)
    time.sleep(FAULT_SECONDS)
    world.calm()


def kill_redis(world: World) -> None:
    world.send("servers/valkey", signal.SIGKILL)


def restart_redis_often(world: World) -> None:
    for _ in range(3):
        world.send("servers/valkey", signal.SIGKILL)
        time.sleep(1)


def storm(world: World, *, lasts: float = FAULT_SECONDS) -> None:
    """Half of all connections end, ten times a second."""
    _again(
        lambda: world.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.5"
        ),
        lasts,
    )


def kill_postgres(world: World) -> None:
    """It recovers from its log; what it had not written there was not committed."""
    world.send("servers/postgres", signal.SIGKILL)
    wait_for(lambda: _answers(world), BACK_SECONDS)


def kill_a_backend(world: World) -> None:
    """Postgres ends all others and recovers, since memory they share may be spoilt."""
    row = world.rows(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() LIMIT 1"
    )[0]
    os.kill(row["pid"], signal.SIGKILL)
    wait_for(lambda: _answers(world), BACK_SECONDS)


def use_up_connections(world: World) -> None:
    """Another role takes all there are, also those that Berth then loses."""
    url = world.servers.run["database_url"]
    theirs = urlsplit(url)._replace(netloc=f"{CROWD}:{CROWD}@{urlsplit(url).netloc.rpartition('@')[2]}").geturl()
    world.rows(_MAKE_CROWD)
    with ExitStack() as idle:
        first = psycopg2.connect(theirs)
        idle.callback(first.close)
        first.autocommit = True
        _crowd(theirs, idle)
        with first.cursor() as cursor:
            cursor.execute(_END_OTHERS, [CROWD])
        _again(lambda: _crowd(theirs, idle))


def fill_the_disk(world: World) -> None:
    """Every insert and update of the tables that matter fails as on a full disk: a stub, by triggers."""
    world.rows(_FULL_FUNCTION)
    for table in _WRITTEN:
        _alter(
            world,
            f"CREATE TRIGGER a_chaos_disk_full BEFORE INSERT OR UPDATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION chaos_disk_full()",
        )
    time.sleep(FAULT_SECONDS)
    for table in _WRITTEN:
        _alter(world, f"DROP TRIGGER a_chaos_disk_full ON {table}")


def _alter(world: World, sql: str) -> None:
    """Waits for its lock only shortly, and again: who waits long for a whole table holds up everybody."""

    def altered() -> bool:
        try:
            world.rows("SET LOCAL lock_timeout = '200ms'; " + sql)
        except (psycopg2.errors.LockNotAvailable, psycopg2.errors.DeadlockDetected):
            return False
        return True

    wait_for(altered, BACK_SECONDS)


def _crowd(url: str, idle: ExitStack) -> None:
    """Idle connections until no more are given."""
    with suppress(psycopg2.OperationalError):
        while True:
            idle.callback(psycopg2.connect(url, connect_timeout=5).close)


def _answers(world: World) -> bool:
    try:
        return bool(world.rows("SELECT 1"))
    except psycopg2.Error:
        return False


EXPERIMENTS: Final = [
    Experiment("Redis: emptied, over and over", empty_redis),
    Experiment("Redis: messages deleted", lose_messages),
    Experiment("Redis: each message five times more", double_messages),
    Experiment("Redis: stopped", stop_redis),
    Experiment("Redis: killed", kill_redis),
    Experiment("Redis: killed three times", restart_redis_often),
    Experiment("Postgres: a storm over its connections", storm),
    Experiment("Postgres: killed", kill_postgres),
    Experiment("Postgres: one of its processes killed", kill_a_backend),
    Experiment("Postgres: out of connections", use_up_connections),
    Experiment("Postgres: no room left (by triggers)", fill_the_disk),
]
