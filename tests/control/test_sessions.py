"""Sessions in an operator's hands: drained, enabled, quarantined, disabled; singly, by account, by pool."""

import pytest

from jobs import transitions
from pool.models import Resource, ResourceMove
from tests import factories
from tests.control.conftest import Operator
from tests.factories import session_of
from tests.jobs.health_world import HTTP_503, REFUSED, World

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
    assert "503 http_503" in operator.page(account)
    assert "2 sessions will rest no longer" in operator.effect("end-rest", account)
    operator.do("end-rest", account)
    assert world.states(0) == ["available"] * 2
    world.run(0, REFUSED)
    assert "refused by the upstream: 401 http_401" in operator.page(account)
    world.after(31)
    world.run(0, REFUSED, tenant=factories.make_tenant())
    assert "refused by the upstream, not taken out by an operator" in operator.page(account)
    operator.do("enable", account)
    assert world.states(0) == ["available"] * 2


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
