"""An upstream that is to be called otherwise while calls are under way: the plan says what that means for them."""

import re
from typing import Any

import pytest

from broker_project.config import plan_moves
from jobs.models import JobType
from jobs.queries.flights import CALLED_AS
from tenants.models import Tenant
from tests import factories
from tests.config.conftest import Apply

pytestmark = pytest.mark.django_db
ELSEWHERE = "http://127.0.0.1:9901"


def warnings(said: str) -> list[str]:
    return [line.partition(";")[0].strip() for line in said.splitlines() if "warning:" in line]


CHANGES = {
    "pools.video.upstream.base_url": ELSEWHERE,
    "pools.video.accounts.a1.base_url": ELSEWHERE,
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


def test_the_plan_warns_of_all_that_an_attempt_keeps_a_digest_of() -> None:
    kept = re.findall(r"upstream (?:-> '|#> '{submit,)(\w+)", CALLED_AS)
    assert set(kept) == {*plan_moves.MADE_OF, *plan_moves.REQUEST}
