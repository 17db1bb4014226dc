"""A submit is one message, which is a transaction where none is open, and a part of it where one is."""

from typing import Any
from uuid import uuid4

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from credits import ledger
from credits.errors import InsufficientCredits, LedgerConflict
from jobs import transitions
from jobs.models import Job
from jobs.signals import job_moved
from statemachine.actors import acting_as
from tenants.models import Tenant
from tests import db, factories
from tests.factories import MICRO
from tests.money_cases import faults
from webhooks.models import Event

by_itself = pytest.mark.django_db(transaction=True)
PRICE = 10 * MICRO


def new_job(tenant: Tenant, **fields: Any) -> Job:
    job_type = factories.make_job_type()
    usual = {"pool_id": job_type.pool_id, "payload": {}, "price": PRICE, "fingerprint": b"f" * 32}
    return Job(**{"id": uuid4(), "tenant": tenant, "type": job_type, "idempotency_key": uuid4().hex, **usual, **fields})


@by_itself
def test_a_submit_waits_for_one_answer_while_it_holds_the_balance() -> None:
    tenant = factories.make_tenant()
    transitions.submit(new_job(tenant))  # its statements are prepared by now
    job = new_job(tenant)
    with CaptureQueriesContext(connection) as sent:
        transitions.submit(job)
    message, *after = [query["sql"] for query in sent]
    assert message.count("EXECUTE") == 3
    assert all("jobs_job" not in sql and "COMMIT" not in sql for sql in after), "what follows is the wake-up"
    assert Job.objects.get(pk=job.pk).turn is not None
    assert db.rows("SELECT cause, actor FROM jobs_jobmove WHERE subject_id = %s", [job.pk])[0][0] == "submit"


@by_itself
@pytest.mark.parametrize("prepared", [True, False])
def test_a_refused_submit_leaves_nothing_and_the_connection_as_it_was(prepared: bool, settings: Any) -> None:
    settings.PREPARED_STATEMENTS = prepared
    tenant = factories.make_tenant(credits=15)
    told = "SELECT current_setting('lock_timeout') || current_setting('berth.actor', true)"
    by_default = db.value(told)
    with acting_as("tenant:one"):
        transitions.submit(new_job(tenant))
    another, before = new_job(tenant), db.everything()
    with pytest.raises(InsufficientCredits) as refused:
        transitions.submit(another)
    assert (refused.value.required, refused.value.available) == (PRICE, 5 * MICRO)
    assert db.everything() == before
    assert db.value(told) == by_default


@pytest.mark.django_db
def test_a_refusal_within_an_open_transaction_leaves_what_was_before_it() -> None:
    tenant = factories.make_tenant(credits=15)
    with transaction.atomic():
        job = transitions.submit(new_job(tenant))
        with pytest.raises(InsufficientCredits):
            transitions.submit(new_job(tenant))
        assert Job.objects.get() == job


@by_itself
def test_turns_are_announced_once_the_outermost_transaction_has_committed() -> None:
    heard: list[str] = []

    def hear(verb: str, **_kwargs: Any) -> None:
        heard.append(verb)

    job_moved.connect(hear)
    tenant = factories.make_tenant()
    with transaction.atomic():
        transitions.submit(new_job(tenant))
        assert not heard
    assert heard == ["promote"]
    transitions.submit(new_job(tenant))
    assert heard == ["promote", "promote"]


@by_itself
def test_that_little_is_left_is_told_by_the_transaction_that_held_or_nothing_is_held() -> None:
    tenant = factories.make_tenant(credits=15, low_below=6 * MICRO)
    job = new_job(tenant)
    before = db.everything()
    with faults.at_row("webhooks_event", 1, "refused"), pytest.raises(DatabaseError, match=faults.REFUSED):
        transitions.submit(job)
    assert db.everything() == before
    transitions.submit(job)
    assert Event.objects.get().body["data"]["job"] == str(job.pk)
    assert Job.objects.count() == 1


@by_itself
def test_a_hold_that_stood_before_its_job_is_refused() -> None:
    job = new_job(factories.make_tenant())
    ledger.hold(job.tenant_id, [ledger.HoldRequest(job.pk, 1, PRICE)], 60)
    with pytest.raises(LedgerConflict):
        transitions.submit(job)
    ledger.release([(job.pk, 1)], "test")
    assert not Job.objects.exists()


@by_itself
def test_what_the_database_fills_in_is_there_when_asked_for() -> None:
    job = factories.submit(factories.make_tenant(), factories.make_job_type(), start_deadline_ms=60_000)
    assert job.start_deadline > timezone.now()
    assert job == Job.objects.get(arrival=job.arrival, created_at=job.created_at)
