"""One pool on one simulator, types with every way to charge, and a tenant for each test, behind four web processes."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import httpx
import psycopg2

from tests.whole.money.crowd import Answer, Post, submit_all_at_once
from tests.whole.running import Running, ended, wait_for
from tests.whole.test_stories import SUBMIT, credentials

SESSIONS = 10
PRICE = 2
BLIND = {**SUBMIT, "units": "response.body.no_such_field"}
USAGE = ("charged by usage", "charged by usage, free", "charged as held", "charged as held, free", "charged blindly")
# Name of a type: what it differs in.
TYPES: dict[str, dict[str, Any]] = {
    "charged as held": {},
    "charged as held, free": {"price": "0"},
    "charged by usage": {"settle": "outcome.units"},
    "charged by usage, free": {"price": "0", "settle": "outcome.units"},
    "charged blindly": {"settle": "outcome.units", "upstream": {"submit": BLIND}},
    "charged by usage, once": {
        "settle": "outcome.units",
        "delivery": "at_most_once",
        "upstream": {"submit": {**SUBMIT, "idempotent": False}},
    },
    "excess is absorbed": {"settle": "outcome.units", "overrun": "absorb"},
    "excess is owed": {"settle": "outcome.units", "overrun": "debt"},
    "becomes dearer": {"settle": "outcome.units"},
    "as asked": {"price": "payload.credits"},
}
# Name of a tenant: its credits.
TENANTS = {
    "covered for 10": 10 * PRICE,
    "covered for 100": 100 * PRICE,
    "revoked": 100,
    "topped up": 0,
    "repeats": 1_000,
    "repeats as well": 1_000,
    "in flight": 100,
    "loses Redis": 100,
    "disconnects": 1_000,
    "used up, absorbed": 10,
    "used up, owed": 10,
    "hostile usage": 1_000,
    "unreadable usage": 100,
    "before the change": 1_000,
    "has accounts pay": 1_000,
}
ON_CREDIT, LINE = ("used up, absorbed", "used up, owed"), 5  # these may go so many credits below zero


class World:
    """What the tests of this folder share; each has tenants of its own."""

    def __init__(self, berth: Running, webs: Sequence[str], simulator_url: str) -> None:
        self.berth, self.webs, self.simulator_url = berth, list(webs), simulator_url
        self.apply()
        lines = berth.manage("issue_key", *TENANTS).stdout.split()
        self.run(
            "from credits import ledger; from tenants.models import Tenant\n"
            f"for tenant in Tenant.objects.filter(name__in={list(ON_CREDIT)!r}):\n"
            f"    ledger.set_floor(tenant.pk, -{LINE}_000_000); ledger.set_credit_limit(tenant.pk, {LINE}_000_000)"
        )
        self.keys = dict(zip(TENANTS, [word for word in lines if word.startswith("berth_")], strict=True))

    def apply(self, **changes: dict[str, Any]) -> None:
        """Applies the configuration, types changed as said."""
        upstream = {"base_url": self.simulator_url, "headers": {"Authorization": "'Bearer ' + account.credential"}}
        accounts = {f"acct-{n:03}": {"credential": {"env": f"CREDENTIAL_{n}"}} for n in range(1, SESSIONS + 1)}
        usual = {
            "pool": "money",
            "price": str(PRICE),
            "max_runtime": "1m",
            "delivery": "at_least_once",
            "retry": {"attempts": 2, "first": "100ms", "max": "100ms"},
            "upstream": {"submit": SUBMIT},
        }
        self.berth.apply(
            {
                "pools": {"money": {"upstream": upstream, "accounts": accounts}},
                "job_types": {name: {**usual, **own, **changes.get(name, {})} for name, own in TYPES.items()},
                "tenants": {name: {"credits": granted} for name, granted in TENANTS.items()},
            },
            **credentials(SESSIONS),
        )

    def client(self, tenant: str, web: int = 0) -> httpx.Client:
        """A program of the tenant that speaks to one of the web processes."""
        headers = {"Authorization": f"Bearer {self.keys[tenant]}"}
        return httpx.Client(base_url=self.webs[web], headers=headers, timeout=30)

    def submit(self, tenant: str, job_type: str, payloads: Sequence[dict[str, Any]], clients: int = 16) -> list[Answer]:
        """Sends a submit for each payload, all at once."""
        posts = [Post(self.keys[tenant], {"type": job_type, "payload": payload}) for payload in payloads]
        return submit_all_at_once(self.webs, posts, clients)

    def jobs(self, tenant: str, ids: set[str]) -> list[dict[str, Any]]:
        """These jobs, all of which have ended."""
        with self.client(tenant) as client:
            found: list[dict[str, Any]] = wait_for(lambda: ended(client, ids))
            return found

    def balance(self, tenant: str) -> tuple[float, float, float]:
        """(posted, held, available), in credits."""
        with self.client(tenant) as client:
            shown = client.get("/v1/balance").json()
            return float(shown["posted"]), float(shown["held"]), float(shown["available"])

    def run(self, code: str) -> None:
        """Does what an operator would, in a process of its own."""
        done = self.berth.manage("shell", "--no-imports", "-c", code)
        assert done.returncode == 0, done.stderr

    def report(self) -> dict[str, Any]:
        """What the simulator counted."""
        return dict(httpx.get(f"{self.simulator_url}/report").json())

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Asks Berth's database."""
        with closing(psycopg2.connect(self.berth.run["database_url"])) as connection, connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    def holds(self, tenant: str) -> int:
        """How many holds the tenant has, open or closed."""
        found = self.rows(
            "SELECT count(*) FROM credits_hold h JOIN credits_account a ON a.id = h.account_id"
            " JOIN tenants_tenant t ON t.id = a.owner_id AND a.kind = 'wallet' WHERE t.name = %s",
            [tenant],
        )
        return int(found[0][0])


def accepted(answers: Sequence[Answer]) -> set[str]:
    """The jobs of those that were accepted."""
    return {answer.document["id"] for answer in answers if answer.status in {200, 202}}
