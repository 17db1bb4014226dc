"""One simulator, and for each fault a pool, a type and a tenant of its own, applied once: what the tests here share."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import httpx
import psycopg2

from tests.whole.asking.world import CANCEL, POLL, POLLED
from tests.whole.running import Running, wait_for
from tests.whole.test_stories import SUBMIT, credentials

SYNC = {"submit": SUBMIT}
BLIND = {"submit": {**SUBMIT, "idempotent": False}}
QUICK = {"attempts": 3, "first": "100ms", "max": "200ms"}
TERMINAL = {"completed", "failed", "cancelled"}
# Name: sessions, and what its type differs in.
POOLS: dict[str, tuple[int, dict[str, Any]]] = {
    "worker is killed": (1, {"upstream": SYNC}),
    "tried again": (1, {"upstream": BLIND, "accept_repeats": True, "max_runtime": "3s"}),
    "crash loop": (1, {"upstream": SYNC, "max_runtime": "6s"}),
    "copied messages": (4, {"upstream": SYNC}),
    "workers come and go": (3, {"upstream": SYNC}),
    "cancelled": (1, {"upstream": SYNC, "max_runtime": "4s"}),
    "cancelled, backs off": (1, {"upstream": SYNC, "retry": {"attempts": 3, "first": "60s", "max": "60s"}}),
    "hangs": (1, {"upstream": BLIND, "accept_repeats": True, "max_runtime": "3s"}),
    "long": (2, {"upstream": {"submit": {**SUBMIT, "timeout": "20s"}}}),
    "polled by many": (2, {"upstream": SYNC}),
    "connections are cut": (4, {"upstream": SYNC}),
    "corrupted": (1, {"upstream": SYNC}),
    "unknown adapter": (1, {"upstream": SYNC}),
    "leaks": (
        4,
        {
            "upstream": {**POLLED, "poll": {**POLL, "timeout": "1s"}, "cancel": CANCEL},
            "delivery": "at_most_once",
            "max_runtime": "2s",
        },
    ),
    "all is killed": (2, {"upstream": SYNC}),
}
SESSIONS = sum(sessions for sessions, _ in POOLS.values())


class World:
    """`sim` speaks with the fake provider; `clients` are the tenants' programs, by the name of their pool."""

    def __init__(self, berth: Running, url: str) -> None:
        self.berth, self.url = berth, url
        self.sim = httpx.Client(base_url=url, timeout=30)
        self.apply()
        lines = berth.manage("issue_key", *POOLS).stdout.split()
        keys = dict(zip(POOLS, [word for word in lines if word.startswith("berth_")], strict=True))
        self.clients = {name: self._client(key) for name, key in keys.items()}

    def apply(self, change: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
        """Applies the configuration, changed as said."""
        config = configuration(self.url)
        change(config)
        self.berth.apply(config, **credentials(SESSIONS))

    def _client(self, key: str) -> httpx.Client:
        limits, headers = httpx.Limits(max_connections=32), {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self.berth.run["web_url"], headers=headers, timeout=30, limits=limits)

    def submit(self, name: str, seconds: float = 0.02, sim: dict[str, Any] | None = None, **more: Any) -> str:
        """The id of an accepted job that takes so long, and meets these faults."""
        payload = {"seconds": seconds, "units": 1, **({"sim": sim} if sim else {})}
        answer = self.clients[name].post("/v1/jobs", json={"type": name, "payload": payload, **more})
        assert answer.status_code in (200, 202), answer.text
        return str(answer.json()["id"])

    def submit_many(self, name: str, count: int, seconds: float = 0.02) -> list[str]:
        """The same by eight programs at once."""
        with ThreadPoolExecutor(8) as programs:
            return list(programs.map(lambda _: self.submit(name, seconds), range(count)))

    def job(self, name: str, job_id: str) -> dict[str, Any]:
        return dict(self.clients[name].get(f"/v1/jobs/{job_id}").json())

    def ended(self, name: str, ids: Sequence[str], seconds: float = 30) -> list[dict[str, Any]]:
        """These jobs, once all have."""
        return [
            dict(wait_for(lambda one=one: (job := self.job(name, one))["state"] in TERMINAL and job, seconds))
            for one in ids
        ]

    def attempts(self, name: str, job_id: str) -> list[dict[str, Any]]:
        return list(self.clients[name].get(f"/v1/jobs/{job_id}/attempts").json()["data"])

    def executions(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """What the upstream took on for these jobs, by its own book."""
        book = self.sim.get("/book", params={"limit": 100_000}).json()
        wanted = {f"job.{job_id}" for job_id in ids}
        return [line for line in book if line["reference"] in wanted]

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Asks Berth's database, or writes to it past Berth."""
        with closing(psycopg2.connect(self.berth.run["database_url"])) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(sql, parameters or None)
            return list(cursor.fetchall()) if cursor.description else []

    def sessions(self, name: str) -> dict[str, int]:
        """Sessions of the pool, by state."""
        sql = "SELECT r.state, count(*) FROM pool_resource r JOIN pool_pool p ON p.id = r.pool_id WHERE p.name = %s"
        return {state: int(count) for state, count in self.rows(f"{sql} GROUP BY 1", [name])}

    def held(self, name: str) -> tuple[float, float]:
        """(posted, held), in credits."""
        shown = self.clients[name].get("/v1/balance").json()
        return float(shown["posted"]), float(shown["held"])

    def report(self) -> dict[str, Any]:
        return dict(self.sim.get("/report", params={"since": 0}).json())

    def close(self) -> None:
        for client in (*self.clients.values(), self.sim):
            client.close()


def configuration(url: str) -> dict[str, Any]:
    """Each pool has accounts of one session, from the simulator's one after the other."""
    config: dict[str, Any] = {"pools": {}, "job_types": {}, "tenants": {}}
    taken = 0
    for name, (sessions, own) in POOLS.items():
        accounts = {
            f"acct-{n:03}": {"sessions": 1, "credential": {"env": f"CREDENTIAL_{n}"}}
            for n in range(taken + 1, taken + sessions + 1)
        }
        taken += sessions
        upstream = {"base_url": url, "headers": {"Authorization": "'Bearer ' + account.credential"}}
        config["pools"][name] = {"upstream": upstream, "accounts": accounts}
        usual = {
            "pool": name,
            "price": "2",
            "settle": "outcome.units",
            "max_runtime": "1m",
            "delivery": "at_least_once",
        }
        config["job_types"][name] = {**usual, "retry": QUICK, **own}
        config["tenants"][name] = {"credits": 10_000}
    return config
