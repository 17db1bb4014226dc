"""An upstream that is to be called otherwise while calls are under way: the plan says what that means for them."""

from typing import Any

import pytest

from jobs import calls
from jobs.models import JobType
from jobs.queries import called_as, flights
from pool.models import Pool, UpstreamAccount
from tenants.models import Tenant
from tests import db, factories
from tests.config.conftest import Apply

pytestmark = pytest.mark.django_db
ELSEWHERE = "http://127.0.0.1:9901"


def warnings(said: str) -> list[str]:
    return [line.partition(";")[0].strip() for line in said.splitlines() if "warning:" in line]


CHANGES = {
    "pools.video.upstream.base_url": ELSEWHERE,
    "pools.video.accounts.a1.base_url": ELSEWHERE,
    "pools.video.accounts.a1.vars": {"endpoint": "two"},
    "pools.video.accounts.a1.credential": {"env": "A2"},
    "pools.video.upstream.headers": {"X-Key": "account.credential"},
    "job_types.clip.upstream.find": {"path": "'/find?key=' + dispatch_key", "success": "true", "missing": "false"},
    "job_types.clip.upstream.submit.headers": {"Idempotency-Key": "job.id"},
}


@pytest.mark.parametrize(("place", "value"), CHANGES.items(), ids=list(CHANGES))
def test_it_says_how_many_attempts_are_asked_for_otherwise_than_they_were_sent(
    apply: Apply, place: str, value: Any
) -> None:
    apply()
    flight = factories.dispatch(
        factories.at("assigned", JobType.objects.get(), Tenant.objects.get(), payload={"seconds": 1})
    )
    assert warnings(apply((place, value), dry_run=True)) == ["warning: 1 attempt is under way"]
    assert warnings(apply(("pools.video.cooldown", "2s"), dry_run=True)) == []
    factories.learn(flight, factories.SUCCESS)
    assert warnings(apply((place, value))) == []


PARTS = [
    *(("pool", name) for name in called_as.OF_POOL),
    *(("account", name) for name in called_as.OF_ACCOUNT),
    *(("type", name) for name in called_as.OF_TYPE),
    *(("submit", name) for name in called_as.OF_SUBMIT),
]


def declared_otherwise(whose: str, name: str) -> None:
    """In what is stored, so that the file, which has not changed, would change it."""
    stored: Any = {"pool": Pool, "account": UpstreamAccount}.get(whose, JobType).objects.get()
    if whose == "account":
        setattr(stored, name, ELSEWHERE if name == "base_url" else {"another": 1})
    elif whose == "submit":
        stored.upstream = {**stored.upstream, "submit": {**stored.upstream["submit"], name: "another"}}
    else:
        stored.upstream = {**stored.upstream, name: "another"}
    stored.save()


@pytest.mark.parametrize(("whose", "name"), PARTS)
def test_the_plan_warns_of_all_that_an_attempt_keeps_a_digest_of(apply: Apply, whose: str, name: str) -> None:
    apply()
    flight = factories.dispatch(
        factories.at("assigned", JobType.objects.get(), Tenant.objects.get(), payload={"seconds": 1})
    )
    assert flight.declared_as_called
    declared_otherwise(whose, name)
    assert [f.declared_as_called for f in flights.opened([flight.attempt_id])] == [False]
    said = apply(dry_run=True)
    assert "they were called otherwise" in said
    assert warnings(said) == ["warning: 1 attempt is under way"]


def test_all_that_a_call_can_read_of_an_account_is_part_of_it() -> None:
    """Its name stays, and a credential is changed for another of the same account."""
    flight = factories.dispatch(factories.at("assigned"))
    read = set(calls.call_of(flight).account)
    assert read - {"name", "credential"} == {*called_as.OF_ACCOUNT} - {"base_url"}


@pytest.mark.parametrize(("change", "as_called"), [("vars", True), ("base_url", False)])
def test_an_attempt_that_was_begun_before_more_was_kept_counts_as_it_did(change: str, as_called: bool) -> None:
    flight = factories.dispatch(factories.at("assigned"))
    db.rows(
        f"""UPDATE jobs_attempt a SET called_as = {called_as._BEFORE} FROM jobs_job j, jobs_jobtype jt,
                   pool_upstreamaccount c, pool_pool p
            WHERE j.id = a.job_id AND jt.id = j.type_id AND c.id = a.account_id AND p.id = c.pool_id RETURNING 1""",
        [],
    )
    assert flights.opened([flight.attempt_id])[0].declared_as_called
    UpstreamAccount.objects.update(**{change: ELSEWHERE if change == "base_url" else {"endpoint": "two"}})
    assert flights.opened([flight.attempt_id])[0].declared_as_called is as_called
