"""Upstream accounts with a balance at their provider: what Berth keeps of it is what the provider says, to the last unit."""

from typing import Any

import httpx
import pytest

from tests.whole.money.world import World, accepted
from tests.whole.running import simulator, wait_for
from tests.whole.test_stories import SUBMIT, credentials

pytestmark = pytest.mark.processes
TENANT = "has accounts pay"
BALANCES = {"acct-001": 100, "acct-002": 11, "acct-003": 40}
FAILS = {"sim": {"partial": 0.5}}  # half of it is charged, and the type does not take it for a success
STANDING = """
SELECT u.name, b.posted / 1000000.0, b.held FROM credits_balance b
JOIN credits_account a ON a.id = b.account_id AND a.kind = 'upstream' JOIN pool_upstreamaccount u ON u.id = a.owner_id
"""


def config(url: str) -> dict[str, Any]:
    upstream = {"base_url": url, "headers": {"Authorization": "'Bearer ' + account.credential"}}
    accounts = {
        name: {"credits": balance, "sessions": 2, "credential": {"env": f"CREDENTIAL_{n}"}}
        for n, (name, balance) in enumerate(BALANCES.items(), 1)
    }
    answers = {
        **SUBMIT,
        "cost": "response.body.units",
        "success": "response.status == 200 && response.body.status == 'done'",
        "failed": "response.status == 200 && response.body.status in ['failed', 'partial']",
    }
    return {
        "pools": {"paid for": {"upstream": upstream, "accounts": accounts}},
        "job_types": {
            "paid for by accounts": {
                "pool": "paid for",
                "price": "1",
                "cost": "payload.units",
                "max_runtime": "1m",
                "upstream": {"submit": answers},
            }
        },
    }


def settled(client: httpx.Client, ids: set[str]) -> list[dict[str, Any]] | None:
    """The jobs, once each has ended or waits for an account that can pay."""
    jobs = [job for job in client.get("/v1/jobs?limit=100").json()["data"] if job["id"] in ids]
    done = all(job["state"] in ("completed", "failed") or job["waiting_for"] == "upstream_credits" for job in jobs)
    return jobs if done and len(jobs) == len(ids) else None


def test_accounts_pay_what_the_provider_took_and_none_is_asked_for_more(world: World) -> None:
    """Some jobs fit on one account only, one on none: it waits, the others go on, and no account is asked for too much."""
    with simulator("--accounts", "3", "--sessions", "2", "--latency", "20ms") as url:
        told = [{"name": name, "balance": balance} for name, balance in BALANCES.items()]
        assert httpx.post(f"{url}/control/accounts", json=told).status_code == 200
        world.berth.apply(config(url), **credentials(3))
        payloads: list[dict[str, Any]] = [{"units": units} for units in (30, 1, 12, 30, 2, 200, 5, 30, 8, 1, 3)]
        payloads += [{"units": 4, **FAILS}]
        ids = accepted(world.submit(TENANT, "paid for by accounts", payloads))
        with world.client(TENANT) as client:
            jobs = wait_for(lambda: settled(client, ids))
        waiting = [job for job in jobs if job["state"] == "pending"]
        assert [job["state"] for job in jobs].count("failed") == 1
        assert 1 <= len(waiting) < len(jobs) / 2
        left = {line["name"]: line["balance"] for line in httpx.get(f"{url}/control/accounts").json()}
        kept = {name: (float(posted), held) for name, posted, held in world.rows(STANDING)}
        assert kept == {name: (balance, 0) for name, balance in left.items()}
        assert min(left.values()) >= 0
        assert httpx.get(f"{url}/report").json()["refused"] == 0
        with world.client(TENANT) as client:
            assert {client.post(f"/v1/jobs/{job['id']}/cancel").json()["state"] for job in waiting} == {"cancelled"}
