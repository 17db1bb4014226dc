"""Sessions in an operator's hands: drained, enabled, quarantined, disabled; singly, by account, by pool."""

import pytest

from broker_project.control import live_page
from jobs import transitions
from pool.models import Resource, ResourceMove, UpstreamAccount
from tests import factories
from tests.control.conftest import Operator
from tests.factories import session_of
from tests.jobs.health_world import HTTP_503, World

pytestmark = pytest.mark.django_db


def test_an_account_is_drained_and_enabled_again(operator: Operator) -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=3))
    job = factories.at("processing", job_type)
    account = session_of(job).account
    assert operator.open("drain", account).status_code == 200
    shown = operator.effect("drain", account, reason="planned work")
    assert "2 available, 1 busy" in shown
    assert "3 sessions will accept no job, 1 of them when what runs there has ended" in shown
    assert Resource.objects.filter(accepting=True).count() == 3, "looking changes nothing"
    assert "3 sessions drained" in operator.do("drain", account, reason="planned work")
    assert set(Resource.objects.values_list("accepting", "note")) == {(False, "planned work (admin:root)")}
    assert session_of(job).state == "busy"
    factories.submit(job.tenant, job_type)
    assert transitions.assign(job_type.pool_id) == 0
    assert "nothing is left to change" in operator.effect("drain", account, reason="again")
    operator.do("enable", account)
    assert transitions.assign(job_type.pool_id) == 1


def test_a_session_is_disabled_by_name(operator: Operator) -> None:
    pool = factories.make_pool()
    session = pool.resources.get()
    operator.do("disable", session, reason="banned")
    session.refresh_from_db()
    assert (session.state, session.reason) == ("offline", "banned (admin:root)")
    assert ResourceMove.objects.latest("id").actor == "admin:root"
    assert "banned (admin:root)" in operator.page(session)
    operator.do("enable", session)
    session.refresh_from_db()
    assert (session.state, session.note) == ("available", "")


def test_a_pool_is_quarantined_for_a_time(operator: Operator) -> None:
    pool = factories.make_pool(sessions=2, accounts=2)
    shown = operator.effect("quarantine", pool, reason="odd answers", minutes=30)
    assert "4 sessions will rest until 30 minutes from now" in shown
    operator.do("quarantine", pool, reason="odd answers", minutes=30)
    assert set(Resource.objects.values_list("state", flat=True)) == {"cooldown"}


def test_an_account_that_failed_tells_why_and_its_rest_is_ended_by_hand(operator: Operator) -> None:
    world = World(accounts=2, sessions_each=2)
    account = world.accounts[0]
    assert "It has not failed" in operator.page(account)
    world.run(0, HTTP_503, times=5)
    assert "http_503" in operator.page(account)
    assert "2 sessions will rest no longer" in operator.effect("end-rest", account)
    operator.do("end-rest", account)
    assert world.states(0) == ["available"] * 2
    world.take_offline(0)
    assert "refused by the upstream; 2 sessions of it stay offline" in operator.page(account)
    operator.do("enable", account)
    assert world.states(0) == ["available"] * 2


def test_a_refused_account_says_once_why_since_when_and_what_to_do(operator: Operator) -> None:
    world = World(accounts=2, sessions_each=2)
    account = world.accounts[0]
    world.take_offline(0)
    page = operator.page(account)
    assert page.count("http_401: unknown key") == 1
    assert "401 http_401" not in page
    assert "2 offline: refused by the upstream (http_401)" in page, "at the top"
    since = ResourceMove.objects.filter(to_state="offline").earliest("id").at
    assert f"{since:%Y-%m-%d %H:%M:%S}" in page
    assert "Apply a file with a credential that works" in page
    assert "Enable only when the same credential works again" in page
    assert "2 offline: refused by the upstream (http_401)" in operator.listed(UpstreamAccount)
    same = "The credential, one that the upstream refused (http_401: unknown key), is still the same"
    assert same in operator.effect("enable", account)
    assert "one of 2 sessions that the upstream refused" in operator.effect("enable", world.pool)
    operator.do("enable", account)
    operator.do("drain", account, reason="planned work")
    assert "is still the same" not in operator.effect("enable", account)
    assert "2 available, draining: planned work (admin:root)" in operator.listed(UpstreamAccount)


def test_what_drains_while_its_account_is_to_rest_says_why_it_drains(operator: Operator) -> None:
    world = World(sessions_each=2)
    running, job = world.on(0, 2)
    world.answer([job], factories.BUSY)
    operator.do("drain", world.accounts[0], reason="planned work")
    assert session_of(running).reason, "of the rest that follows"
    assert "1 busy, draining: planned work (admin:root)" in operator.listed(UpstreamAccount)
    live_page.recent.forget()
    (told,) = [cell["reason"] for cell in live_page.pools()[0]["grid"] if cell["state"] == "busy"]
    assert told == "planned work (admin:root)"


def test_an_account_at_rest_says_until_when_and_that_nothing_is_to_be_done(operator: Operator) -> None:
    world = World(sessions_each=2)
    world.run(0, HTTP_503, times=3)
    assert "3 failures in a row, the last" in operator.page(world.accounts[0])
    world.run(0, HTTP_503, times=2)
    page = operator.page(world.accounts[0])
    assert "at rest after failures" in page
    assert f"{world.health().open_until:%Y-%m-%d %H:%M:%S}" in page
    assert "Nothing: one session comes back first, as a probe." in page
    assert "2 cooldown: http_503" in page


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"reason": "", "minutes": 5}, "This field is required"),
        ({"reason": "x", "minutes": 0}, "greater than or equal to 1"),
        ({"reason": "x", "minutes": "soon"}, "Enter a whole number"),
        ({"reason": "x", "minutes": 10**9}, "less than or equal to"),
        ({"reason": "x\0", "minutes": 5}, "Null characters are not allowed"),
        ({"reason": "x" * 301, "minutes": 5}, "at most 300 characters"),
    ],
)
def test_what_is_asked_for_is_checked(operator: Operator, form: dict[str, object], said: str) -> None:
    pool = factories.make_pool()
    assert said in operator.do("quarantine", pool, **form)
    assert Resource.objects.get().state == "available"


def test_a_session_is_found_by_account_state_and_job(operator: Operator) -> None:
    job = factories.at("processing", factories.make_job_type(factories.make_pool(accounts=2)))
    busy = session_of(job)
    assert operator.found(Resource, busy.account.name) == [busy]
    assert operator.found(Resource, "busy") == [busy]
    assert operator.found(Resource, str(job.pk)) == [busy]
