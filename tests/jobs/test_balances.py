"""Accounts are asked what they have left, over real HTTP: what is due, what is booked, what is doubted, what is no reading."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from credits import upstream_accounts
from credits.models import Reading, Transfer
from jobs import balances, calls, tasks, transitions
from jobs.queries.balances import due, standing
from pool.models import Pool, UpstreamAccount
from tests.db import execute
from tests.factories import (
    MICRO,
    SUCCESS,
    dispatch,
    end,
    learn,
    make_job_type,
    make_tenant,
    make_tracked_pool,
    submit,
)
from tests.simulator.conftest import Simulator, start_simulator
from upstream.calls import Call, Outcome
from upstream.http import HttpAdapter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
Make = Callable[..., Pool]


@pytest.fixture(scope="module")
def provider() -> Iterator[Simulator]:
    simulator = start_simulator("--latency", "5ms")
    yield simulator
    simulator.stop()


@pytest.fixture
def make(provider: Simulator) -> Make:
    """A pool whose accounts have so many credits, with us and at the simulator."""
    balances._unanswered.clear()

    def make_(*credits_of_accounts: float | None, at_provider: Any = None, **balance: Any) -> Pool:
        said = at_provider or credits_of_accounts
        upstream = {
            "adapter": "http",
            "base_url": provider.url,
            "headers": {"Authorization": "'Bearer ' + account.credential"},
            "balance": {
                "path": "'/account'",
                "value": "response.body.balance",
                "every_ms": 900_000,
                "most": None,
                **balance,
            },
        }
        pool = make_tracked_pool(*credits_of_accounts, upstream=upstream)
        accounts = pool.accounts.order_by("id")
        provider.control(
            "accounts",
            [
                {"name": a.name, "credential": a.credential, "sessions": 1, "balance": left, "banned": False}
                for a, left in zip(accounts, said, strict=True)
            ],
        )
        return pool

    return make_


def left(pool: Pool) -> list[float]:
    found = upstream_accounts.available(pool.pk, [account.pk for account in pool.accounts.all()])
    return [amount / MICRO for _, amount in sorted(found.items())]


def test_what_the_provider_says_is_booked_as_drift(make: Make) -> None:
    pool = make(100, 50, at_provider=[95, 50])
    tasks.ask_balances()
    assert left(pool) == [95, 50]
    assert sorted(Reading.objects.values_list("drift", "booked")) == [(-5 * MICRO, True), (0, True)]
    assert Transfer.objects.filter(code="drift").count() == 1


def test_it_is_asked_again_when_the_reading_is_as_old_as_the_pool_wants(make: Make) -> None:
    pool = make(100, every_ms=60_000)
    assert len(balances.ask_due()) == 1
    assert balances.ask_due() == []
    execute("ALTER TABLE credits_reading DISABLE TRIGGER USER")
    execute("UPDATE credits_reading SET at = at - interval '61 seconds'")
    execute("ALTER TABLE credits_reading ENABLE TRIGGER USER")
    assert [row["id"] for row in due([])] == [pool.accounts.get().pk]
    assert len(balances.ask_due()) == 1


@pytest.mark.parametrize("why", ["not tracked", "pool closed", "nothing declared"])
def test_who_need_not_be_asked_is_not(make: Make, why: str) -> None:
    pool = make(None if why == "not tracked" else 100, at_provider=[1])
    if why == "pool closed":
        Pool.objects.update(accepting=False)
    if why == "nothing declared":
        Pool.objects.update(upstream={"adapter": "http"})
    assert balances.ask_due() == []
    assert pool.accounts.count() == 1


@pytest.mark.parametrize(
    ("most", "said", "booked"),
    [(None, 79, False), (None, 80, True), (5 * MICRO, 94, False), (5 * MICRO, 95, True), (0, 100, True)],
)
def test_a_reading_that_is_far_off_is_kept_and_told_not_booked(
    make: Make, caplog: pytest.LogCaptureFixture, most: int | None, said: float, booked: bool
) -> None:
    pool = make(100, at_provider=[said], most=most)
    [concluded] = balances.ask_due()
    assert concluded.read is not None
    assert (concluded.read.booked, left(pool)) == (booked, [said if booked else 100])
    assert ("kept, not booked" in caplog.text) is not booked


def test_little_that_is_posted_is_not_doubted_for_little(make: Make) -> None:
    pool = make(1, at_provider=[9])
    balances.ask_due()
    assert left(pool) == [9]


@pytest.mark.parametrize("said", [None, "none at all"])
def test_an_answer_without_a_number_books_nothing_and_is_not_asked_again_at_once(
    make: Make, provider: Simulator, caplog: pytest.LogCaptureFixture, said: Any
) -> None:
    pool = make(100, at_provider=[None], value="response.body.balance" if said is None else "response.body.name")
    [concluded] = balances.ask_due()
    assert concluded.read is None
    assert "no reading of" in caplog.text
    assert (left(pool), Reading.objects.count()) == ([100], 0)
    assert balances.ask_due() == [], "not before its time"
    assert len(balances.ask_all(standing())) == 1, "but on demand"


def test_a_banned_account_and_one_whose_credential_does_not_open_hold_up_nobody(
    make: Make, provider: Simulator
) -> None:
    pool = make(100, 100, 100, at_provider=[90, 90, 90])
    first, second, _ = pool.accounts.order_by("id")
    provider.control("accounts", [{"name": first.name, "banned": True}])
    UpstreamAccount.objects.filter(pk=second.pk).update(sealed_credential="k9:nonsense")
    found = {concluded.account["id"]: concluded for concluded in balances.ask_due()}
    assert "403" in found[first.pk].problem
    assert "FIELD_KEYS" in found[second.pk].problem
    assert left(pool) == [100, 100, 90]


def test_what_attempts_took_while_the_provider_was_asked_is_no_drift(make: Make) -> None:
    pool = make(100)
    job = submit(make_tenant(), make_job_type(pool, settle=""))
    transitions.assign(pool.pk)
    [asked] = due([])
    end(job, SUCCESS)  # 10 are charged between the question and the answer, which still says 100
    read = balances.take(asked, 100 * MICRO, "k", before=(asked["posted"], asked["held"]))
    assert (read.drift, left(pool)) == (0, [90])
    late = balances.take(asked, 85 * MICRO, "k2", before=(asked["posted"], asked["held"]))
    assert (late.drift, left(pool)) == (-5 * MICRO, [85])


def test_a_refusal_for_want_of_credits_moves_no_balance(make: Make) -> None:
    pool = make(100, at_provider=[0])
    upstream = {"mode": "sync", "submit": {"path": "'/run'", "not_executed": "response.status == 402"}}
    job = submit(make_tenant(), make_job_type(pool, upstream=upstream))
    transitions.assign(pool.pk)
    flight = dispatch(job)
    outcome = asyncio.run(_sent(calls.call_of(flight)))
    assert (outcome.status, outcome.verdict) == (402, "not_executed")
    learn(flight, outcome)
    transitions.finish([job.pk])
    assert (left(pool), Reading.objects.count()) == ([100], 0), (
        "what was held is given back, and nothing is read from it"
    )


def test_the_standing_of_an_account_adds_up(make: Make) -> None:
    pool = make(100, at_provider=[85])
    job = submit(make_tenant(), make_job_type(pool, settle=""))
    transitions.assign(pool.pk)
    end(job, SUCCESS)
    balances.ask_due()
    submit(make_tenant(), make_job_type(pool))
    transitions.assign(pool.pk)
    [row] = standing([pool.accounts.get().pk])
    shown = [row[name] / MICRO for name in ("posted", "held", "available", "spent", "drift", "said", "off")]
    assert shown == [85, 10, 75, 10, -5, 85, -5]
    assert 0 <= row["age_seconds"] < 60


async def _sent(call: Call) -> Outcome:
    adapter = HttpAdapter()
    try:
        return await adapter.submit(call, repeat=False)
    finally:
        await adapter.close()
