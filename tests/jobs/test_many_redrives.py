"""Redrives beside each other: they share a sweep's time, and none is stopped by another, nor taken for it."""

from typing import Any

import pytest
from django.db import transaction

from credits import ledger
from jobs import redrives, sweep
from jobs.dead_letters import Filter
from jobs.models import Redrive
from jobs.queries import dead_letters
from tests import db, factories
from tests.db import RACE_SECONDS, in_another_connection
from tests.jobs.test_redrives import begin, fail, replays

pytestmark = pytest.mark.django_db


def test_a_token_that_began_another_one_begins_nothing() -> None:
    factories.at("failed", factories.make_job_type(name="clip"))
    terms: Any = {"why": "", "actor": "admin:root", "token": "a" * 32}
    two_hours = {"type": "clip", "since": "2h"}
    first, begun = redrives.begin(Filter.of_words(two_hours), 2.0, None, **terms)
    assert begun
    db.let_time_pass(3)
    assert redrives.begin(Filter.of_words(two_hours), 2.0, None, **terms) == (first, False), "2h moved on with the time"
    for said, rate, most in (({"type": "clip"}, 2.0, None), (two_hours, 3.0, None), (two_hours, 2.0, 1)):
        with pytest.raises(redrives.TokenUsed, match=f"not begun: this page has begun {first} already"):
            redrives.begin(Filter.of_words(said), rate, most, **terms)
    assert Redrive.objects.count() == 1


def test_all_redrives_share_the_time_of_a_sweep_and_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redrives, "LONGEST_SECONDS", 0.0)  # for one letter
    job_type, tenants = factories.make_job_type(), [factories.make_tenant(name=f"t{n}") for n in range(3)]
    for tenant in tenants:
        fail(job_type, 3, tenant)
    begun = [begin(tenant=tenant.name) for tenant in tenants]
    for _ in range(6):
        db.let_time_pass(1)
        sweep._run([step for step in sweep.FLOW if step.task == "redrive"])
    counts = [len(replays(redrive)) for redrive in begun]
    assert sum(counts) == 6, "one letter in each sweep, as there is time for one"
    assert min(counts) >= 1


def test_a_redrive_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    fail(factories.make_job_type(), 1)
    broken, sound = begin(), begin()
    Redrive.objects.filter(pk=broken.pk).update(filter={"nothing": "of the kind"})
    assert redrives.drive_due() == 1
    assert len(replays(sound)) == 1
    said = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert said == [f"drive of {broken.pk} failed; again in 5 s"]
    assert broken.pk not in dead_letters.due()


@pytest.mark.django_db(transaction=True)
def test_a_tenant_whose_balance_somebody_holds_does_not_stop_the_others() -> None:
    job_type, held = factories.make_job_type(), factories.make_tenant()
    fail(job_type, 1, held)
    (goes,) = fail(job_type, 1)
    redrive = begin()
    with transaction.atomic():
        ledger.lock_wallets([held.pk])
        in_another_connection(lambda: [redrives.drive_due() for _ in range(2)]).result(RACE_SECONDS)
    redrive.refresh_from_db()
    assert (replays(redrive), redrive.reasons) == ([goes.pk], {"somebody else held it": 1})


def test_the_progress_of_a_long_one_is_told_however_many_began_after_it() -> None:
    long, ended = begin(), begin()
    redrives.stop(ended.pk, "admin:root")
    shown = [
        {"id": each.pk, "state": state, "replayed": 0, "refused": 0}
        for each, state in ((long, "running"), (ended, "stopped"))
    ]
    assert dead_letters.progress() == shown
    for _ in range(dead_letters.MOST_TOLD):
        redrives.stop(begin().pk, "admin:root")
    assert dead_letters.progress()[0] == shown[0]
