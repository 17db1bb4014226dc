"""What the doctor says of processes and of the work: who is missing, what is overdue, what nobody can serve."""

from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from broker_project.doctor import of_processes, of_work
from broker_project.doctor.findings import Finding
from credits import upstream_accounts
from jobs import balances, fetching, restoring, transitions
from jobs.queries.balances import standing
from pool import transitions as sessions
from pool.models import Pool, Resource
from tests import db, factories
from tests.doctor.conftest import Connected
from tests.jobs.health_world import HTTP_503, REFUSED, World
from tests.jobs.test_asking import accepted, ask
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db
# Within one transaction the server shows the same sessions again.
SEEN_ANEW = pytest.mark.django_db(transaction=True)


@SEEN_ANEW
def test_processes_that_are_missing_are_named(connected: Connected) -> None:
    assert of_processes.processes().level == "error"
    for name in ("process:web", "process:beat", "worker:assign@h", "worker:transitions@h"):
        connected(name)
    found = of_processes.processes()
    assert (found.level, found.found.endswith("not seen: worker:upstream")) == ("warning", True)
    connected("worker:upstream@h")
    assert of_processes.processes().level == "ok"


def test_without_a_worker_or_web_something_essential_is_missing(connected: Connected) -> None:
    connected("process:web")
    found = of_processes.processes()
    assert (found.level, "worker:upstream" in found.found) == ("error", True)


@pytest.mark.parametrize(("look", "name"), [(of_processes.web, "WEB_URL"), (of_processes.live, "LIVE_URL")])
def test_an_address_where_nobody_answers_is_told(
    settings: Any, live_server: Any, look: Callable[[], Finding], name: str
) -> None:
    setattr(settings, name, "")
    assert look().found == f"not asked: {name} is not set"
    setattr(settings, name, live_server.url)
    assert look().found == f"{live_server.url} answers"
    setattr(settings, name, "http://127.0.0.1:1")
    assert look().level == "warning"


def test_a_command_somebody_typed_is_no_process(connected: Connected) -> None:
    connected("process:4711")
    assert of_processes.processes().found == "no process of Berth is connected"


@SEEN_ANEW
def test_nobody_sweeps_while_nobody_is_there(connected: Connected) -> None:
    assert of_processes.sweep().found == "nobody sweeps: no process is there"
    connected("process:live")  # looks at jobs, and sweeps none
    assert of_processes.sweep().level == "error"
    connected("process:beat")
    assert of_processes.sweep().found == "nothing is overdue; 1 process may sweep"


def test_work_that_is_overdue_is_named() -> None:
    """A job that came due, a session that has rested, an ended attempt and a lost lease: nothing took them up."""
    factories.at("backing_off")
    flight = factories.dispatch(factories.at("assigned", factories.make_job_type(factories.make_pool(cooldown_ms=5))))
    factories.learn(flight, factories.SUCCESS)
    factories.at("processing")
    db.let_time_pass(600)
    found = of_processes.sweep()
    assert found.level == "error"
    for what in (
        "leases that ended: 1",
        "attempts that ended: 1",
        "cooldowns that are over: 1",
        "jobs that came due: 1",
    ):
        assert what in found.found


def test_a_result_that_is_being_fetched_is_not_overdue() -> None:
    job = factories.at("assigned")
    factories.learn(
        factories.dispatch(job), Outcome(over=True, verdict="succeeded", files={"file": "https://a.example/b"})
    )
    db.let_time_pass(600)
    assert "results to fetch: 1" in of_processes.sweep().found, "nobody takes it up"
    assert len(fetching.take([job.id], 1)) == 1
    found = of_processes.sweep().found
    assert "attempts that ended" not in found
    assert "results to fetch" not in found


def test_a_pool_whose_sessions_are_all_shut_is_an_error() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=3))
    assert of_work.pools().found == "1 pool with 3 sessions to give"
    first, second, third = Resource.objects.values_list("id", flat=True).order_by("id")
    sessions.drain([first], "by a test")
    sessions.disable([second], "by a test")
    assert of_work.pools().found == "1 pool with 1 session to give"
    sessions.disable([third], "by a test")
    found = of_work.pools()
    assert (found.level, found.found) == ("error", f"no session to give in {job_type.pool.name}")


def test_a_session_that_goes_offline_after_its_job_is_shut_already() -> None:
    job = factories.at("processing")
    assert of_work.pools().level == "ok"
    sessions.disable([factories.session_of(job).pk], "by a test")
    assert of_work.pools().level == "error"


def test_a_pool_that_is_closed_since_a_restore_is_told() -> None:
    assert of_work.closed_pools().level == "ok"
    job = factories.at("pending")
    restoring.restored(note="test")
    found = of_work.closed_pools()
    assert (found.level, job.pool.name in found.found, "1 job to be found out" in found.found) == (
        "warning",
        True,
        True,
    )


def test_a_closed_pool_and_one_that_no_type_uses_are_told() -> None:
    job_type = factories.make_job_type()
    Pool.objects.filter(pk=job_type.pool_id).update(accepting=False)
    assert of_work.pools().found == f"closed: {job_type.pool.name}"
    Pool.objects.update(accepting=True)
    unused = factories.make_pool()
    assert of_work.pools().found == f"no job type that takes jobs uses {unused.name}"


def test_jobs_that_nothing_can_serve_are_counted() -> None:
    job_type = factories.make_job_type()
    factories.submit_many(factories.make_tenant(), job_type, 3)
    assert of_work.waiting().level == "ok"
    sessions.drain(Resource.objects.values_list("id", flat=True), "by a test")
    found = of_work.waiting()
    assert found.level == "error"
    assert found.found == f"3 jobs wait where nothing can serve them: {job_type.pool.name} (3)"


def test_one_job_that_nothing_can_serve_is_told_in_the_singular() -> None:
    job = factories.at("pending")
    sessions.drain(Resource.objects.values_list("id", flat=True), "by a test")
    assert of_work.waiting().found == f"1 job waits where nothing can serve it: {job.pool.name} (1)"


def test_what_to_do_for_a_pool_without_sessions_follows_from_why_it_has_none() -> None:
    world = World(accounts=1, name="video")
    waiting = factories.submit(world.tenant, world.type)
    transitions.cancel(waiting.pk)
    for _ in range(3):  # nobody else can say so
        world.run(0, REFUSED)
        world.after(600)
    assert of_work.pools().advice.startswith(
        "accounts were refused by the upstream (`accounts` says why): apply a file"
    )
    assert "enable sessions in the admin" not in of_work.pools().advice
    factories.submit(world.tenant, world.type)
    assert of_work.waiting().advice.startswith("accounts were refused by the upstream")
    drained = factories.make_job_type(factories.make_pool(name="drained"))
    sessions.drain(drained.pool.resources.values_list("id", flat=True), "by a test")
    advice = of_work.pools().advice
    assert advice.index("enable sessions in the admin") < advice.index("accounts were refused"), (
        "as the pools are named"
    )
    assert advice.count("add accounts with") == 1


@pytest.mark.parametrize("code", ["http_401", "invalid_api_key"])
def test_outcomes_that_are_asked_for_in_vain_are_told_by_their_codes(code: str) -> None:
    """A credential that was revoked while jobs run: nothing is submitted that would find it out."""
    job = accepted()
    assert of_work.found_out().found == "no outcome is being found out"
    revoked = Outcome(over=False, verdict="unknown", error_class="auth", status=401, error_code=code)
    for _ in range(2):
        factories.learn(ask(job, 10), revoked)
    account = factories.session_of(job).account
    found = of_work.found_out()
    assert (found.level, found.found) == (
        "warning",
        f"1 outcome asked for in vain, by the last code: {account} {code} (1)",
    )
    assert found.advice.startswith(
        "the upstream refuses the account that the work runs on: apply a file with a working"
    )


@pytest.mark.parametrize(
    ("code", "advice"), [("unknown_answer", "mend what is declared"), ("http_500", "they are asked")]
)
def test_an_outcome_is_told_after_some_askings_in_vain(code: str, advice: str) -> None:
    job = accepted()
    for times in (1, 2):
        factories.learn(ask(job, 5 * times), Outcome(over=False, verdict="unknown", error_code=code))
        assert of_work.found_out().found == "1 outcome being found out"
    factories.learn(ask(job, 15), Outcome(over=False, verdict="unknown", error_code=code))
    found = of_work.found_out()
    assert (found.level, f"{code} (1)" in found.found) == ("warning", True)
    assert found.advice.startswith(advice)


def test_jobs_that_no_account_can_pay_for_are_told_with_what_they_want() -> None:
    assert of_work.upstream_credits().level == "ok"
    pool = factories.make_tracked_pool(15, 7.5, name="video")
    jobs = [
        factories.submit(factories.make_tenant(), factories.make_job_type(pool, price=price))
        for price in ("20", "30.5")
    ]
    assert transitions.assign(pool.pk) == 0
    found = of_work.upstream_credits()
    assert (found.level, found.found) == (
        "warning",
        "2 jobs of video wait for credits that no account has (the dearest wants 30.5, the richest account has 15)",
    )
    assert "book a top-up or take a reading" in found.advice
    transitions.cancel(jobs[1].pk)
    assert of_work.upstream_credits().found.startswith("1 job of video waits for credits that no account has")
    sessions.drain(Resource.objects.values_list("id", flat=True), "by a test")
    assert of_work.upstream_credits().found.endswith("(the dearest wants 20, no account takes jobs)")
    sessions.enable(Resource.objects.values_list("id", flat=True))
    upstream_accounts.top_up(pool.pk, pool.accounts.order_by("id")[0].pk, 50 * factories.MICRO, "invoice 3")
    assert of_work.upstream_credits().level == "ok", "the sweep takes it back"


def test_a_reading_that_was_not_booked_is_told_until_one_is() -> None:
    [account] = standing([factories.make_tracked_pool(100, name="video").accounts.get().pk])
    balances.take(account, 5 * factories.MICRO, "a")
    found = of_work.upstream_credits()
    assert (found.level, found.found) == ("warning", "the newest reading of 1 account was not booked: video/acct-001")
    balances.take(account, 5 * factories.MICRO, "b", book=True)
    assert of_work.upstream_credits().level == "ok"


def test_an_adapter_that_is_not_installed_or_fails_is_named_with_who_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    factories.make_job_type()
    assert of_work.adapters().found == "http: loaded"
    wanting = factories.make_job_type(upstream={"adapter": "of_tomorrow", "mode": "sync"})
    found = of_work.adapters()
    assert (found.level, "of_tomorrow (UnknownAdapterError" in found.found) == ("error", True)
    assert f"for {wanting.name})" in found.found
    broken: Any = EntryPoint("of_tomorrow", "no_such_module:Adapter", "berth.adapters")
    monkeypatch.setattr("upstream.adapters.entry_points", lambda **_: [broken])
    assert "of_tomorrow (ModuleNotFoundError" in of_work.adapters().found


def test_dead_letters_are_told_until_they_are_put_aside() -> None:
    assert of_work.dead_letters().level == "ok"
    job = factories.at("failed")
    assert of_work.dead_letters().found == f"1 job failed for good: {job.pool.name} (1)"
    transitions.dismiss([job.pk])
    assert of_work.dead_letters().level == "ok"


def test_an_unknown_outcome_is_told_when_it_is_older_than_it_can_be() -> None:
    flight = factories.dispatch(factories.at("assigned"))
    factories.learn(flight, factories.CUT)
    db.let_time_pass(100)  # max_runtime is 60 s
    assert of_work.unknown().level == "ok"
    db.let_time_pass(30)
    found = of_work.unknown()
    assert (found.level, found.found) == ("error", "1 unknown outcome older than max_runtime, the oldest by 70 s")


def test_accounts_that_are_refused_or_at_rest_are_told_with_the_reason() -> None:
    assert of_work.accounts().level == "ok"
    world = World(accounts=2, name="video")
    world.run(0, HTTP_503, times=5)
    found = of_work.accounts()
    assert found.level == "warning"
    assert "video/acct-001 (http_503" in found.found
    world.take_offline(1)
    assert "video/acct-002: refused by the upstream, not taken out by an operator: http_401" in of_work.accounts().found
