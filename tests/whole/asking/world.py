"""An upstream that takes tasks and is asked later, a type for it, and a tenant: all of one name."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import httpx

from tests.whole.running import Running, simulator, wait_for
from tests.whole.test_stories import credentials

SUBMIT = {"path": "'/tasks'", "headers": {"Idempotency-Key": "dispatch_key"}, "reference": "response.body.id"}
DEDUPLICATES = {**SUBMIT, "idempotent": True}
CALLED_BACK = {**DEDUPLICATES, "body": "{'callback_url': callback_url, 'units': payload.units, 'sim': payload.sim}"}
POLL = {
    "path": "'/tasks/' + reference",
    "every": "300ms",
    "timeout": "3s",
    "running": "response.body.status in ['queued', 'running', 'THROTTLED']",
    "success": "response.body.status == 'done'",
    "partial": "response.body.status == 'partial'",
    "failed": "response.body.status in ['failed', 'cancelled']",
    "progress": "response.body.progress",
    "result": "response.body.output",
    "units": "response.body.units",
    "error": "response.body.error",
}
FIND = {"path": "'/tasks/any?key=' + dispatch_key", "after": "1s", "reference": "response.body.id"}
CANCEL = {
    "method": "DELETE",
    "path": "'/tasks/' + reference",
    "success": "response.status == 200 && response.body.status == 'cancelled'",
}
POLLED = {"mode": "poll", "submit": DEDUPLICATES, "poll": POLL}
TERMINAL = {"completed", "failed", "cancelled"}


class World:
    """`client` speaks for the tenant; `upstream` for the fake provider's book."""

    def __init__(self, berth: Running, name: str, url: str) -> None:
        self.berth, self.name = berth, name
        self.upstream = httpx.Client(base_url=url, timeout=30)
        self.client = berth.client(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.client.close()
        self.upstream.close()

    def submit(self, units: float = 3, seconds: float | None = None, **sim: Any) -> str:
        """The id of an accepted job that meets these faults."""
        payload = {"units": units, "sim": sim, **({"seconds": seconds} if seconds is not None else {})}
        answer = self.client.post("/v1/jobs", json={"type": self.name, "payload": payload})
        assert answer.status_code in (200, 202), answer.text  # 200: it has ended already
        return str(answer.json()["id"])

    def job(self, job_id: str) -> dict[str, Any]:
        return dict(self.client.get(f"/v1/jobs/{job_id}").json())

    def ended(self, job_id: str, seconds: float = 40) -> dict[str, Any]:
        """The job, once it has."""
        return dict(wait_for(lambda: (job := self.job(job_id))["state"] in TERMINAL and job, seconds))

    def executions(self, job_id: str) -> list[dict[str, Any]]:
        """What the upstream took on for a job, by its book."""
        book = self.upstream.get("/book?limit=100000").json()
        return [line for line in book if line["reference"] == f"job.{job_id}"]

    def requests(self) -> list[dict[str, Any]]:
        return list(self.upstream.get("/book/requests?limit=100000").json())

    def fault(self, **fault: Any) -> None:
        """From now on, for every account or the one named `account`."""
        answer = self.upstream.post("/control/faults", json=fault)
        assert answer.status_code == 200, answer.text

    def report(self) -> dict[str, Any]:
        return dict(self.upstream.get("/report").json())

    def sessions(self) -> dict[str, int]:
        """Sessions of the pool, by state."""
        pools = self.client.get("/v1/pools").json()["data"]
        return dict(next(pool for pool in pools if pool["name"] == self.name)["sessions"])

    def sql(self, statement: str) -> str:
        """What the database says, one column of one row."""
        code = (
            "from django.db import connection; c = connection.cursor(); "
            f"c.execute({statement!r}); print(c.fetchone()[0])"
        )
        return self.berth.manage("shell", "-c", code).stdout.strip().splitlines()[-1]


def config(name: str, url: str, accounts: int, upstream: dict[str, Any], **type_fields: Any) -> dict[str, Any]:
    headers = {"Authorization": "'Bearer ' + account.credential"}
    return {
        "pools": {
            name: {
                "upstream": {"base_url": url, "headers": headers},
                "accounts": {
                    f"acct-{n:03}": {"sessions": 1, "credential": {"env": f"CREDENTIAL_{n}"}}
                    for n in range(1, accounts + 1)
                },
            }
        },
        "job_types": {
            name: {
                "pool": name,
                "price": "10",
                "settle": "outcome.units",
                "max_runtime": "5s",
                "upstream": upstream,
                **type_fields,
            }
        },
        "tenants": {name: {"credits": 10_000}},
    }


@contextmanager
def world(
    berth: Running, name: str, upstream: dict[str, Any], *arguments: str, accounts: int = 1, **type_fields: Any
) -> Iterator[World]:
    """The world of one test; `arguments` are the simulator's. At its end no session was used by two jobs."""
    with simulator("--accounts", str(accounts), *arguments) as url:
        berth.apply(config(name, url, accounts, upstream, **type_fields), **credentials(accounts))
        with World(berth, name, url) as made:
            yield made
            assert made.report()["overlaps"] == 0
