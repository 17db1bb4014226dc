"""Stories of accounts that fail, against a provider that keeps a book: what it saw of us, and when. Times are scaled down."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from itertools import pairwise
from typing import Any

import httpx
import psycopg2
import pytest

from tests.whole.running import Running, ended, simulator, wait_for
from tests.whole.test_stories import config, credentials, report, submit_all

pytestmark = pytest.mark.processes

PERIOD_SECONDS = 3.5  # a sweep, and a wake-up, on a machine that has other work; less than the next longer rest
BREAKER = {"failures": 5, "quarantine": "1s", "max": "4s"}


@pytest.fixture(scope="module", autouse=True)
def _every_promise_is_kept(berth: Running) -> Iterator[None]:
    yield
    assert berth.audit_breaches() == {}


class Story:
    """One pool of a simulator of its own, a tenant's client, and the provider's book."""

    def __init__(self, berth: Running, name: str, url: str, client: httpx.Client) -> None:
        self.berth, self.name, self.url, self.client = berth, name, url, client

    def submit(self, **payload: Any) -> str:
        answer = self.client.post("/v1/jobs", json={"type": self.name, "payload": payload})
        assert answer.status_code in (200, 202), answer.text  # 200: it has ended already
        return str(answer.json()["id"])

    def fault(self, fault: dict[str, Any], **more: Any) -> float:
        """From now on; when that is, by the provider's clock."""
        httpx.post(f"{self.url}/control/faults", json={"fault": fault, **more}).raise_for_status()
        return time.time()

    def well_again(self) -> float:
        httpx.delete(f"{self.url}/control/faults").raise_for_status()
        return time.time()

    def requests(self, since: float = 0.0, until: float = float("inf")) -> list[dict[str, Any]]:
        """What the provider was asked between two moments, refused or not."""
        found = httpx.get(f"{self.url}/book/requests", params={"limit": 10_000}).json()
        return [request for request in found if since < request["at"] < until]

    def all_completed(self, ids: set[str]) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = wait_for(lambda: ended(self.client, ids))
        assert Counter(job["state"] for job in jobs) == {"completed": len(ids)}
        return jobs

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg2.connect(self.berth.run["database_url"]) as connection, connection.cursor() as cursor:
            cursor.execute(sql.replace("POOL", f"(SELECT id FROM pool_pool WHERE name = '{self.name}')"))
            return list(cursor.fetchall())

    @contextmanager
    def all_wait(self) -> Iterator[None]:
        """None begins before all are there, however slow this machine is today."""
        self.rows("UPDATE pool_pool SET accepting = false WHERE id = POOL RETURNING id")
        yield
        self.rows("UPDATE pool_pool SET accepting = true WHERE id = POOL RETURNING id")

    def line_up(self, jobs: int) -> set[str]:
        """So many jobs that all wait when the first begins."""
        with self.all_wait():
            return submit_all(self.client, self.name, jobs)

    def sessions(self) -> Counter[str]:
        return Counter(state for (state,) in self.rows("SELECT state FROM pool_resource WHERE pool_id = POOL"))

    def blamed(self) -> list[tuple[Any, ...]]:
        """Accounts that a breaker holds something against."""
        return self.rows("""SELECT a.name, h.level, h.open_until FROM pool_accounthealth h
                            JOIN pool_upstreamaccount a ON a.id = h.account_id
                            WHERE a.pool_id = POOL AND (h.level > 0 OR h.open_until IS NOT NULL)""")


@contextmanager
def story(berth: Running, name: str, accounts: int, sessions: int = 1, latency: str = "100ms") -> Iterator[Story]:
    with simulator("--accounts", str(accounts), "--sessions", str(sessions), "--latency", latency) as url:
        wanted = config(name, url, accounts, {name: {"credits": 10_000}})
        wanted["pools"][name]["breaker"] = BREAKER
        wanted["pools"][name]["window"] = 100
        for account in wanted["pools"][name]["accounts"].values():
            account["sessions"] = sessions
        wanted["job_types"][name]["retry"] = {"attempts": 50, "first": "100ms", "max": "500ms"}
        berth.apply(wanted, **credentials(accounts))
        with berth.client(name) as client:
            yield Story(berth, name, url, client)
            assert report(url)["overlaps"] == 0


def most_in_a_second(moments: Sequence[float]) -> int:
    """The most of them within any one second."""
    return max((sum(1 for other in moments if 0 <= other - at < 1) for at in moments), default=0)


def test_a_banned_account_is_probed_twice_and_called_no_more_and_its_jobs_move_on(berth: Running) -> None:
    """Its tenant is alone in the pool: the third job that is refused confirms it, after rests of one and two seconds."""
    with story(berth, "banned", accounts=3) as told:
        ids = told.line_up(150)
        wait_for(lambda: report(told.url)["executions"] > 5)
        since = told.fault({"ban": True}, account="acct-001")
        jobs = told.all_completed(ids)
        assert {job["attempts"] for job in jobs} == {1}
        asked = [request["at"] for request in told.requests(since) if request["account"] == "acct-001"]
        assert 1 <= len(asked) <= 3
        assert all(later - earlier >= 1 for earlier, later in pairwise(asked))
        assert told.sessions() == {"offline": 1, "available": 2}
        ((note,),) = told.rows("SELECT note FROM pool_resource WHERE pool_id = POOL AND disabled")
        assert "403" in note
        assert "not taken out by an operator" in note


def test_a_retry_after_rests_the_account_and_no_job_pays_for_it(berth: Running) -> None:
    with story(berth, "rests", accounts=1, sessions=3) as told:
        for asked in ("3", formatdate):
            ids = told.line_up(18)
            began = report(told.url)["executions"]
            wait_for(lambda began=began: report(told.url)["executions"] >= began + 3)
            seconds = asked if isinstance(asked, str) else asked(time.time() + 4, usegmt=True)
            since = told.fault({"fail": {"code": 429, "retry_after": seconds}})
            wait_for(lambda since=since: any(each["verdict"] != "accepted" for each in told.requests(since)))
            told.well_again()
            assert {job["attempts"] for job in told.all_completed(ids)} == {1}
            first = min(each["at"] for each in told.requests(since) if each["verdict"] != "accepted")
            assert len(told.requests(first - 0.01, first + 2.4)) <= 3
            assert min(each["at"] for each in told.requests(first + 2.4)) < first + 4 + PERIOD_SECONDS


def test_an_account_is_used_again_when_its_rest_is_over_or_was_ended_by_hand(berth: Running) -> None:
    with story(berth, "again", accounts=1) as told:
        told.fault({"fail": {"code": 429, "retry_after": "2"}}, times=1)
        told.all_completed({told.submit()})
        refused, done = told.requests()
        assert 2 <= done["at"] - refused["at"] < 2 + PERIOD_SECONDS
        told.fault({"fail": {"code": 429, "retry_after": "60"}}, times=1)
        job = told.submit()
        wait_for(lambda: told.sessions() == {"cooldown": 1})
        ended_by_hand = """
from pool import models, transitions
transitions.end_rest(list(models.Resource.objects.filter(pool__name="again").values_list("pk", flat=True)))"""
        assert berth.manage("shell", "-c", ended_by_hand).returncode == 0
        began = time.monotonic()
        told.all_completed({job})
        assert time.monotonic() - began < PERIOD_SECONDS + 1


def test_a_longer_rest_is_not_shortened_by_a_parallel_answer_in_either_order(berth: Running) -> None:
    with story(berth, "longer", accounts=1, sessions=2) as told:
        for asked in (("4", "1"), ("1", "4")):
            late = [{"code": 429, "retry_after": seconds, "late": True} for seconds in asked]
            with told.all_wait():  # so that they run side by side
                ids = {
                    told.submit(seconds=0.7 + 0.3 * number, sim={"fail": failure, "times": 1})
                    for number, failure in enumerate(late)
                }
            wait_for(lambda: told.sessions() == {"cooldown": 2})
            answered = time.time()
            told.all_completed({*ids, told.submit()})
            last = max(request["at"] for request in told.requests(0, answered))
            assert 3.7 < min(request["at"] for request in told.requests(answered)) - last < 5 + PERIOD_SECONDS


def test_a_429_for_all_rests_the_pool_and_blames_no_account(berth: Running) -> None:
    with story(berth, "flood", accounts=6, sessions=2, latency="300ms") as told:
        ids = told.line_up(120)
        wait_for(lambda: report(told.url)["executions"] >= 12)
        since = told.fault({"ip_429": "3s"})
        wait_for(lambda: told.sessions()["cooldown"] == 12)
        assert told.blamed() == []
        jobs = told.all_completed(ids)
        refused = [request for request in told.requests(since) if request["verdict"] == "address_limited"]
        assert 1 <= len(refused) <= 12
        assert {job["attempts"] for job in jobs} == {1}
        assert told.sessions() == {"available": 12}
        assert told.blamed() == []


def test_one_failure_in_fifty_quarantines_nobody(berth: Running) -> None:
    with story(berth, "seldom", accounts=5, sessions=2, latency="20ms") as told:
        told.fault({"fail": 503}, probability=0.02)
        told.all_completed(submit_all(told.client, "seldom", 300))
        assert any(request["verdict"] != "accepted" for request in told.requests())
        assert told.blamed() == []
        assert told.rows("SELECT level FROM pool_poolhealth WHERE pool_id = POOL AND level > 0") == []
        moves = "SELECT 1 FROM pool_resourcemove m JOIN pool_resource r ON r.id = m.subject_id WHERE r.pool_id = POOL"
        assert told.rows(f"{moves} AND m.to_state = 'cooldown'") == []


def test_many_busy_answers_are_one_try(berth: Running) -> None:
    with story(berth, "patient", accounts=1) as told:
        job = told.submit(sim={"fail": 429, "times": 3})
        (done,) = told.all_completed({job})
        assert done["attempts"] == 1
        assert len(told.client.get(f"/v1/jobs/{job}/attempts").json()["data"]) == 4


def test_an_upstream_that_was_away_is_probed_and_not_flooded_when_it_is_back(berth: Running) -> None:
    with story(berth, "away", accounts=5, sessions=2, latency="200ms") as told:
        ids = told.line_up(120)
        wait_for(lambda: report(told.url)["executions"] >= 10)
        told.fault({"fail": 503})
        wait_for(lambda: told.sessions()["cooldown"] == 10)
        since = time.time()
        time.sleep(3.5)
        back = told.well_again()
        told.all_completed(ids)
        in_the_window = told.requests(since, back)
        assert 1 <= len(in_the_window) <= 4  # probes, a second and two apart, and no more
        after = [request["at"] for request in told.requests(back)]
        assert most_in_a_second(after) <= 10 / 0.2 * 1.2
        assert min(after) - back < 4 + PERIOD_SECONDS
        assert told.blamed() == []
