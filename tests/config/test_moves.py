"""An upstream that is to stand elsewhere while calls are under way: the plan says what that means for them."""

import pytest

from jobs.models import JobType
from tenants.models import Tenant
from tests import factories
from tests.config.conftest import Apply

pytestmark = pytest.mark.django_db
ELSEWHERE = "http://127.0.0.1:9901"


def warnings(said: str) -> list[str]:
    return [line.partition(";")[0].strip() for line in said.splitlines() if "warning:" in line]


@pytest.mark.parametrize("place", ["pools.video.upstream.base_url", "pools.video.accounts.a1.base_url"])
def test_it_says_how_many_attempts_are_asked_for_at_the_new_address(apply: Apply, place: str) -> None:
    apply()
    flight = factories.dispatch(
        factories.at("assigned", JobType.objects.get(), Tenant.objects.get(), payload={"seconds": 1})
    )
    assert warnings(apply((place, ELSEWHERE), dry_run=True)) == ["warning: 1 attempts are under way"]
    assert warnings(apply(("pools.video.cooldown", "2s"), dry_run=True)) == []
    factories.learn(flight, factories.SUCCESS)
    assert warnings(apply((place, ELSEWHERE))) == []
