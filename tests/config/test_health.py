"""Applying a breaker, and a new credential for an account that the upstream refused."""

import pytest

from broker_project.config.findings import ConfigRefused
from jobs.models import JobType
from jobs.transitions import cancel
from pool import transitions as operated
from pool.models import AccountHealth, Pool, Resource, UpstreamAccount
from pool.queries import health as rows
from tests import db
from tests.config.conftest import Apply
from tests.factories import at, make_tenant
from tests.jobs.health_world import HTTP_503, REFUSED, answer

pytestmark = pytest.mark.django_db
A1, POOL = "pools.video.accounts.a1", "pools.video"


def states() -> list[str]:
    return list(Resource.objects.order_by("number").values_list("state", flat=True))


def refused(apply: Apply) -> None:
    """The upstream refuses the only account, whoever of its only tenant asks."""
    apply()
    tenant = make_tenant()
    for pause_seconds in (31, 61, 0):
        job = at("processing", JobType.objects.get(), tenant, payload={"seconds": 1})
        answer([job], REFUSED)
        cancel(job.pk)
        db.let_time_pass(pause_seconds)
        operated.release(list(Resource.objects.values_list("pk", flat=True)))
    assert states() == ["offline", "offline"]


def test_sessions_that_a_refused_account_gets_are_refused_like_the_others(
    apply: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(apply)
    apply((f"{A1}.sessions", 3))
    assert states() == ["offline"] * 3
    monkeypatch.setenv("A1", "another")
    apply((f"{A1}.sessions", 3))
    assert states() == ["available"] * 3


def test_a_breaker_is_stored_in_milliseconds_and_without_one_the_usual_holds(apply: Apply) -> None:
    apply()
    assert Pool.objects.get().breaker == {}
    said = apply((f"{POOL}.breaker", {"failures": 3, "quarantine": "10s"}))
    assert "breaker: none" in said
    assert "not enforced" not in said
    assert Pool.objects.get().breaker == {"failures": 3, "quarantine_ms": 10_000, "max_ms": rows.LONGEST_MS}
    (locked,) = rows.lock([Pool.objects.get().pk])
    assert (locked["failures"], locked["quarantine_ms"], locked["longest_ms"]) == (3, 10_000, 1_800_000)
    assert "nothing to change" in apply((f"{POOL}.breaker", {"failures": 3, "quarantine": "10s"}))


def test_a_new_credential_puts_a_refused_account_back(apply: Apply, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(apply)
    apply()
    assert states() == ["offline", "offline"], "the same credential is still refused"
    monkeypatch.setenv("A1", "another")
    apply()
    assert states() == ["available", "available"]
    assert UpstreamAccount.objects.get().credential == "another"
    assert set(Resource.objects.values_list("note", "disabled", "refused")) == {("", False, False)}


def test_a_new_credential_leaves_what_an_operator_took_out(apply: Apply, monkeypatch: pytest.MonkeyPatch) -> None:
    apply()
    first = Resource.objects.get(number=1)
    operated.disable([first.pk], "broken")
    answer([at("processing", JobType.objects.get(), payload={"seconds": 1})], REFUSED)
    assert states() == ["offline", "cooldown"]
    monkeypatch.setenv("A1", "another")
    apply((f"{A1}.sessions", 3))
    assert states() == ["offline", "available", "available"]


def test_wrong_terms_of_a_breaker_are_told(apply: Apply) -> None:
    with pytest.raises(ConfigRefused):
        apply((f"{POOL}.breaker", {"failures": 0}))


def test_a_probe_that_is_not_offered_any_more_is_replaced(apply: Apply) -> None:
    apply()
    for _ in range(5):
        job = at("processing", JobType.objects.get(), payload={"seconds": 1})
        answer([job], HTTP_503)
        cancel(job.pk)
    first, second = Resource.objects.order_by("number")
    AccountHealth.objects.update(probe_id=second.pk)
    operated.rest_or_release([first.pk, second.pk])
    apply((f"{A1}.sessions", 1))
    assert AccountHealth.objects.get().probe_id == first.pk
    db.let_time_pass(31)
    operated.release([first.pk])
    assert states() == ["available", "cooldown"]
