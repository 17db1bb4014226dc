"""Upstream accounts with a balance: held with the session, charged by attempt, and nobody waits for who cannot be paid for."""

from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from django.db.models import Sum

from credits import upstream_accounts
from credits.models import Hold, Transfer
from jobs import asking, transitions
from jobs.affording import match
from jobs.models import Job
from jobs.queries import missed
from jobs.queries.affording import affordable_again
from jobs.sweep import sweep
from pool import transitions as sessions
from pool.models import Pool
from tests.db import execute, in_another_connection, wait_until_blocked_by_us
from tests.factories import (
    AWAY,
    CUT,
    FAILURE,
    MICRO,
    REJECTED,
    SUCCESS,
    attempt_of,
    dispatch,
    end,
    learn,
    make_job_type,
    make_tenant,
    make_tracked_pool,
    submit,
    submit_many,
)
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db(transaction=True)


def left(pool: Pool) -> list[float]:
    """What its accounts have for new attempts, in credits."""
    found = upstream_accounts.available(pool.pk, [account.pk for account in pool.accounts.all()])
    return [amount / MICRO for _, amount in sorted(found.items())]


def test_what_an_attempt_is_expected_to_use_is_set_aside_with_its_session() -> None:
    pool = make_tracked_pool(25)
    job = submit(make_tenant(), make_job_type(pool))
    assert transitions.assign(pool.pk) == 1
    assert left(pool) == [15]
    hold = Hold.objects.get(job_id=job.pk, attempt=1)
    assert (hold.run, hold.amount, hold.status) == (1, 10 * MICRO, "open")


@pytest.mark.parametrize(
    ("type_says", "answer", "charged"),
    [
        ({}, SUCCESS, 3),  # by the settle expression over 3 units
        ({"settle": ""}, SUCCESS, 10),  # as expected
        ({"cost": "7"}, SUCCESS, 7),
        ({"cost": "7"}, Outcome(over=True, verdict="succeeded", units=3, cost=1.5), 1.5),
        ({"cost": "2"}, Outcome(over=True, verdict="succeeded", units=3, cost=5.0), 5),  # more than was set aside
        ({"cost": "7"}, Outcome(over=True, verdict="succeeded", units=3, cost=1e12), 7),  # no price
        ({"cost": "7"}, Outcome(over=True, verdict="succeeded", units=3, cost=70.5), 7),  # not to be believed
        ({"cost": "0"}, Outcome(over=True, verdict="succeeded", units=3, cost=5.0), 5),  # not expected
        ({"cost": "7"}, FAILURE, 7),
        ({"cost": "7"}, Outcome(over=True, verdict="failed", cost=2.0), 2),
        ({"cost": "7"}, AWAY, 0),
        ({"cost": "7"}, REJECTED, 0),
        ({"cost": "0"}, SUCCESS, 0),
    ],
)
def test_each_attempt_is_charged_to_its_account(type_says: dict[str, str], answer: Outcome, charged: float) -> None:
    pool = make_tracked_pool(100)
    job = submit(make_tenant(), make_job_type(pool, **type_says))
    transitions.assign(pool.pk)
    end(job, answer)
    assert left(pool) == [100 - charged]
    assert not Hold.objects.filter(attempt__gt=0, status="open").exists()


@pytest.mark.parametrize("terms", [{"prices": "0.1 * price"}, {"billing": "none"}])
def test_what_an_account_pays_does_not_depend_on_what_the_tenant_pays(terms: dict[str, Any]) -> None:
    pool = make_tracked_pool(100)
    kind = make_job_type(pool, settle="held * outcome.units / 10.0")
    own = {"prices": {kind.name: terms["prices"]}} if "prices" in terms else terms
    job = submit(make_tenant(**own), kind)
    transitions.assign(pool.pk)
    assert left(pool) == [90]
    end(job, Outcome(over=True, verdict="succeeded", units=11.0))
    assert left(pool) == [89]


def test_a_cost_that_cannot_be_believed_is_flagged() -> None:
    pool = make_tracked_pool(100)
    for cost, flag in ((1e8, "absurd cost: 100000000.000000 where 7.000000 were expected"), (1e12, "cost: ")):
        job = submit(make_tenant(), make_job_type(pool, cost="7"))
        transitions.assign(pool.pk)
        assert end(job, Outcome(over=True, verdict="succeeded", units=3.0, cost=cost)).flagged.startswith(flag)
    assert left(pool) == [100 - 14]


def test_a_retry_on_another_account_costs_the_tenant_once_and_the_pool_twice() -> None:
    pool = make_tracked_pool(100, 100)
    kind = make_job_type(pool, delivery="at_least_once", settle="", cost="7", retry={"first_ms": 0})
    tenant = make_tenant()
    job = submit(tenant, kind)
    transitions.assign(pool.pk)
    end(job, FAILURE)
    transitions.come_due([job.pk])
    transitions.promote(pool.pk, [tenant.pk])
    assert transitions.assign(pool.pk) == 1
    end(job, SUCCESS)
    job.refresh_from_db()
    assert (job.state, job.charged, left(pool)) == ("completed", 10 * MICRO, [93, 93])


def test_an_unknown_outcome_keeps_what_was_set_aside_until_it_is_waited_out() -> None:
    pool = make_tracked_pool(100)
    job = submit(make_tenant(), make_job_type(pool, cost="7"))
    transitions.assign(pool.pk)
    learn(dispatch(job), CUT)
    transitions.finish([job.pk])
    assert (left(pool), Hold.objects.get(attempt=1).status) == ([93], "open")
    execute("UPDATE jobs_attempt SET called_at = now() - interval '1 day', look_at = now()")
    asking.verify([job.pk], "other")
    transitions.finish([job.pk])
    assert (left(pool), Hold.objects.get(attempt=1).status) == ([93], "captured")
    assert Transfer.objects.filter(code="settle", ledger=f"resource:{pool.pk}").count() == 1


@pytest.mark.parametrize("way", ["cancel", "unassign"])
def test_what_was_never_sent_gives_all_back(way: str) -> None:
    pool = make_tracked_pool(100)
    job = submit(make_tenant(), make_job_type(pool))
    transitions.assign(pool.pk)
    if way == "cancel":
        transitions.cancel(job.pk)
    else:
        execute("UPDATE jobs_attempt SET lease_until = now()")
        transitions.unassign([job.pk])
    assert (left(pool), Hold.objects.get(attempt=1).status) == ([100], "released")


def test_an_account_that_cannot_pay_is_not_chosen() -> None:
    pool = make_tracked_pool(5, 50, sessions_each=3)
    jobs = [submit(make_tenant(), make_job_type(pool)) for _ in range(2)]
    assert transitions.assign(pool.pk) == 2
    assert {attempt_of(job).account_id for job in jobs} == {pool.accounts.order_by("-id").first().pk}  # type: ignore[union-attr]
    assert left(pool) == [5, 30]


def test_an_account_that_is_not_tracked_can_pay_for_anything() -> None:
    pool = make_tracked_pool(5, None)
    job = submit(make_tenant(), make_job_type(pool))
    transitions.assign(pool.pk)
    assert attempt_of(job).account.name == "acct-002"
    assert not Hold.objects.filter(attempt__gt=0).exists()


@pytest.mark.parametrize("credits_of_accounts", [(0, 100), (5, None)])
def test_an_empty_account_with_many_sessions_hides_no_other(credits_of_accounts: tuple[float | None, ...]) -> None:
    pool = make_tracked_pool(*credits_of_accounts, sessions_each=12)
    jobs = [submit(make_tenant(), make_job_type(pool)) for _ in range(3)]
    assert transitions.assign(pool.pk) == 3
    assert {attempt_of(job).account.name for job in jobs} == {"acct-002"}


def test_an_account_that_can_pay_for_some_hides_no_richer_one() -> None:
    pool = make_tracked_pool(5, 100, sessions_each=12, window=100)
    tenant = make_tenant()
    dear = [submit(tenant, make_job_type(pool, price="20")) for _ in range(2)]
    submit(tenant, make_job_type(pool, price="1"))
    assert transitions.assign(pool.pk) == 3
    assert {attempt_of(job).account.name for job in dear} == {"acct-002"}


def test_many_that_wait_for_a_busy_account_starve_nobody_in_a_fifo_pool() -> None:
    pool = make_tracked_pool(1_000, 5, order="fifo", window=1_000)
    dear, cheap = make_job_type(pool, price="10"), make_job_type(pool, price="1", settle="")
    submit(make_tenant(), dear)
    assert transitions.assign(pool.pk) == 1  # the rich account is busy from now on
    crowd = submit_many(make_tenant(10_000), dear, 600)
    Job.objects.filter(pk__in=[job.pk for job in crowd]).update(cost=10 * MICRO)
    last = submit(make_tenant(), cheap)
    for _ in range(8):
        sweep()
    last.refresh_from_db()
    assert last.state == "assigned"
    before = Job.objects.filter(pk__in=[job.pk for job in crowd]).aggregate(sum=Sum("version"))["sum"]
    sweep()
    after = Job.objects.filter(pk__in=[job.pk for job in crowd]).aggregate(sum=Sum("version"))["sum"]
    assert after - before <= 2 * 10, "those who wait are left in peace"


def test_a_job_that_nobody_can_pay_for_holds_up_nobody() -> None:
    pool = make_tracked_pool(15, window=100)
    dear, cheap = make_job_type(pool, price="20"), make_job_type(pool, price="1", settle="")
    tenant, other = make_tenant(10_000), make_tenant()
    unaffordable = [submit(tenant, dear) for _ in range(60)]
    others = [submit(tenant, cheap), submit(other, cheap)]
    for _ in others:
        assert transitions.assign(pool.pk) == 1
        end(Job.objects.get(state="assigned"), SUCCESS)
    assert Job.objects.filter(pk__in=[job.pk for job in others], state="completed").count() == 2
    sweep()
    waiting = Job.objects.filter(pk__in=[job.pk for job in unaffordable])
    assert waiting.filter(state="pending", turn__isnull=True, unaffordable=True).count() == 60
    assert affordable_again() == []


def test_it_stands_in_line_again_when_an_account_can_pay() -> None:
    pool = make_tracked_pool(15)
    job = submit(make_tenant(), make_job_type(pool, price="20"))
    assert transitions.assign(pool.pk) == 0
    job.refresh_from_db()
    assert (job.turn, job.unaffordable) == (None, True)
    account = pool.accounts.get()
    upstream_accounts.top_up(pool.pk, account.pk, 5 * MICRO, "invoice")
    sweep()
    job.refresh_from_db()
    assert (job.state, job.unaffordable, left(pool)) == ("assigned", False, [0])


def test_it_waits_for_a_busy_account_that_could_pay_in_its_place_in_line() -> None:
    pool = make_tracked_pool(100, 5)
    dear, cheap = make_job_type(pool, price="20"), make_job_type(pool, price="1")
    tenant = make_tenant()
    first = submit(tenant, dear)
    assert transitions.assign(pool.pk) == 1
    second, third = submit(tenant, dear), submit(tenant, cheap)
    assert transitions.assign(pool.pk) == 1
    assert [Job.objects.get(pk=job.pk).state for job in (second, third)] == ["pending", "assigned"]
    second.refresh_from_db()
    assert (second.unaffordable, second.turn is not None) == (False, True)
    end(first, SUCCESS)
    assert transitions.assign(pool.pk) == 1
    assert attempt_of(second).account.name == "acct-001"


def test_an_account_out_of_service_is_no_reason_to_wait_in_line() -> None:
    pool = make_tracked_pool(100, 5)
    rich = pool.accounts.order_by("id").first()
    assert rich is not None
    sessions.disable([r.pk for r in rich.resources.all()], "gone")
    job = submit(make_tenant(), make_job_type(pool))
    assert transitions.assign(pool.pk) == 0
    job.refresh_from_db()
    assert job.unaffordable
    sessions.enable([r.pk for r in rich.resources.all()])
    assert affordable_again() == [job.pk]


def test_an_unaffordable_job_can_be_cancelled_and_expires() -> None:
    pool = make_tracked_pool(1)
    kind = make_job_type(pool)
    first, second = submit(make_tenant(), kind), submit(make_tenant(), kind, start_deadline_ms=1)
    transitions.assign(pool.pk)
    assert transitions.cancel(first.pk)
    assert missed.jobs_to_expire() == [second.pk]
    assert transitions.expire([second.pk]) == 1


def test_what_another_takes_meanwhile_is_not_given_twice() -> None:
    pool = make_tracked_pool(15)
    job, other = submit(make_tenant(), make_job_type(pool)), uuid4()
    with transaction.atomic():
        taken = upstream_accounts.AttemptHold(pool.accounts.get().pk, other, 1, 1, 10 * MICRO)
        assert upstream_accounts.hold(pool.pk, [taken], 60)
        second = in_another_connection(lambda: transitions.assign(pool.pk))
        wait_until_blocked_by_us()
    assert second.result(20) == 0
    assert left(pool) == [5]
    job.refresh_from_db()
    assert (job.state, job.unaffordable) == ("pending", True)
    upstream_accounts.close([upstream_accounts.AttemptEnd(other, 1, 1, None)])


def test_each_turn_meets_the_first_session_that_can_pay() -> None:
    def session(number: int, account: int) -> dict[str, int]:
        return {"id": number, "account_id": account, "fence": 1}

    def turn(number: int, cost: int) -> dict[str, Any]:
        return {"id": number, "turn": float(number), "run": 1, "number": 1, "cost": cost}

    free = [session(1, 1), session(2, 1), session(3, 2)]
    pairs, unmet = match(free, [turn(1, 8), turn(2, 8), turn(3, 30), turn(4, 0)], {1: 10, 2: 20})
    assert [(pair["job_id"], pair["resource_id"]) for pair in pairs] == [(1, 1), (2, 3), (4, 2)]
    assert [missed_turn["id"] for missed_turn in unmet] == [3]
