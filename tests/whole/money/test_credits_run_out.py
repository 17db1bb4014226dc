"""Who has credits for so many jobs has so many accepted, through however many web processes; the rest is told how it stands."""

import time

import pytest

from tenants import keys
from tests.whole.money.world import PRICE, World, accepted

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(
    ("covered", "submitted", "clients", "latency_ms"),
    [(10, 500, 500, 3_000), (100, 300, 16, 20)],
    ids=["while the upstream holds its answers", "while jobs end"],
)
def test_exactly_what_the_credits_cover_is_accepted(
    world: World, covered: int, submitted: int, clients: int, latency_ms: int
) -> None:
    """Each costs what was held, so nothing comes back that could be used again."""
    tenant = f"covered for {covered}"
    answers = world.submit(tenant, "charged as held", [{"latency_ms": latency_ms}] * submitted, clients)
    ids = accepted(answers)
    refused = [answer.document for answer in answers if answer.status not in (200, 202)]
    assert (len(ids), len(refused)) == (covered, submitted - covered)
    assert {(no["status"], no["code"], no["required"], no["available"]) for no in refused} == {
        (402, "insufficient-credits", "2.000000", "0.000000")
    }
    # What is held is charged as jobs end, so it depends on the moment.
    assert {float(no["held"]) for no in refused} <= {float(PRICE * held) for held in range(covered + 1)}
    assert {job["state"] for job in world.jobs(tenant, ids)} == {"completed"}
    assert world.balance(tenant) == (0, 0, 0)
    assert world.holds(tenant) == covered


def test_a_top_up_counts_at_once_in_every_web_process(world: World) -> None:
    tenant, nothing = "topped up", [{}] * 4
    assert {answer.status for answer in world.submit(tenant, "charged as held", nothing, clients=4)} == {402}
    world.run(
        "from credits import ledger; from tenants.models import Tenant;"
        f"ledger.grant(Tenant.objects.get(name={tenant!r}).pk, 8_000_000, 'invoice-1')"
    )
    answers = world.submit(tenant, "charged as held", nothing, clients=4)
    assert {answer.status for answer in answers} <= {200, 202}  # 200: it had ended by then
    world.jobs(tenant, accepted(answers))
    assert world.balance(tenant) == (0, 0, 0)


def test_a_revoked_key_is_refused_by_every_web_process(world: World) -> None:
    tenant = "revoked"
    before = world.submit(tenant, "charged as held", [{}] * 4, clients=4)  # each has seen the key, and keeps it a while
    assert {answer.status for answer in before} <= {200, 202}
    world.run(
        "from tenants import keys; from tenants.models import ApiKey;"
        f"assert keys.revoke(ApiKey.objects.get(tenant__name={tenant!r}).pk)"
    )
    time.sleep(keys.KEPT_SECONDS)  # what is promised: so long, and no longer
    after = world.submit(tenant, "charged as held", [{}] * 8, clients=4)
    assert [(answer.status, answer.document["code"]) for answer in after] == [(401, "unauthenticated")] * 8
    assert world.holds(tenant) == 4
