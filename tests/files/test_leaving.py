"""Files leave when their time is over and nobody needs them; every step may be cut and repeated."""

from uuid import uuid4

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import transaction

from files import leaving, queries, reading
from files.errors import FileGone, FileInUse, NoSuchFile
from files.models import File, Reference, Usage
from tenants.models import Tenant
from tests.db import execute, in_another_connection, wait_until_blocked_by_us
from tests.files.conftest import put, stored_places

JOB = uuid4()


def everybody(job_ids: object) -> set[object]:
    return set(job_ids)  # type: ignore[call-overload]


def nobody(_job_ids: object) -> set[object]:
    return set()


def over() -> None:
    execute("UPDATE files_file SET expires_at = now() - interval '1 second'")


@pytest.mark.django_db
def test_what_has_not_expired_stays(tenant: Tenant) -> None:
    put(tenant)
    assert leaving.expire(nobody, 10) == 0
    assert leaving.remove(10) == 0
    assert len(stored_places()) == 1


@pytest.mark.django_db
def test_what_has_expired_goes_step_by_step(tenant: Tenant) -> None:
    row = put(tenant, job_id=JOB)
    over()
    leaving.expire(nobody, 10)
    with pytest.raises(FileGone):
        reading.of_tenant(tenant.pk, row["id"])
    assert queries.usable(tenant.pk, [row["id"]]) == {}
    assert (len(stored_places()), Usage.objects.get().input_bytes) == (1, 5)
    leaving.remove(10)
    assert (len(stored_places()), Usage.objects.get().input_bytes) == (0, 0)
    assert not Reference.objects.exists()
    leaving.remove(10)
    assert leaving.forget(10) == 0
    execute("UPDATE files_file SET gone_at = now() - interval '31 days', leaving_at = now() - interval '31 days'")
    leaving.forget(10)
    with pytest.raises(NoSuchFile):
        reading.of_tenant(tenant.pk, row["id"])


@pytest.mark.django_db
def test_what_a_job_needs_is_prolonged(tenant: Tenant) -> None:
    row = put(tenant, job_id=JOB)
    over()
    leaving.expire(everybody, 10)
    leaving.remove(10)
    assert reading.of_tenant(tenant.pk, row["id"])["expires_at"] > row["created_at"]
    assert leaving.expire(everybody, 10) == 0, "it is not looked at again at once"
    assert len(stored_places()) == 1


@pytest.mark.django_db
def test_a_crash_between_bytes_and_row_is_made_good(tenant: Tenant) -> None:
    row = reading.of_tenant(tenant.pk, put(tenant)["id"])
    leaving.delete_one(tenant.pk, row["id"], nobody)
    default_storage.delete(row["place"])  # and here it died
    leaving.remove(10)
    assert File.objects.get().gone_at is not None
    assert Usage.objects.get().input_bytes == 0


@pytest.mark.django_db
def test_bytes_that_cannot_be_deleted_hold_up_no_others(tenant: Tenant) -> None:
    stuck, other = (reading.of_tenant(tenant.pk, put(tenant)["id"]) for _ in range(2))
    default_storage.delete(stuck["place"])
    default_storage.save(f"{stuck['place']}/x", ContentFile(b"x"))  # a folder that is not empty
    for row in (stuck, other):
        leaving.delete_one(tenant.pk, row["id"], nobody)
    leaving.remove(1)
    assert File.objects.filter(gone_at=None).count() == 2
    leaving.remove(1)
    assert File.objects.get(gone_at=None).pk == stuck["id"]


@pytest.mark.django_db
def test_batches_are_bounded(tenant: Tenant) -> None:
    for _ in range(3):
        put(tenant)
    over()
    assert [leaving.expire(nobody, 2), leaving.expire(nobody, 2)] == [2, 1]
    assert [leaving.remove(2), leaving.remove(2), leaving.remove(2)] == [2, 1, 0]


@pytest.mark.django_db
def test_what_is_in_use_is_not_deleted(tenant: Tenant) -> None:
    row = put(tenant, job_id=JOB)
    with pytest.raises(FileInUse):
        leaving.delete_one(tenant.pk, row["id"], everybody)
    leaving.delete_one(tenant.pk, row["id"], nobody)
    with pytest.raises(FileGone):
        leaving.delete_one(tenant.pk, row["id"], nobody)
    with pytest.raises(NoSuchFile):
        leaving.delete_one(tenant.pk, uuid4(), nobody)


@pytest.mark.django_db(transaction=True)
def test_who_refers_while_it_is_deleted_waits_and_finds_it_gone(tenant: Tenant) -> None:
    row = put(tenant)
    with transaction.atomic():
        leaving.delete_one(tenant.pk, row["id"], nobody)
        other = in_another_connection(lambda: _usable(tenant, row["id"]))
        wait_until_blocked_by_us()
    assert other.result(10) == {}


@pytest.mark.django_db(transaction=True)
def test_who_deletes_while_it_is_referred_to_waits_and_finds_it_in_use(tenant: Tenant) -> None:
    row = put(tenant)
    with transaction.atomic():
        assert queries.usable(tenant.pk, [row["id"]], lock=True)
        queries.refer(JOB, [row["id"]])
        other = in_another_connection(lambda: leaving.delete_one(tenant.pk, row["id"], everybody))
        wait_until_blocked_by_us()
    with pytest.raises(FileInUse):
        other.result(10)


def _usable(tenant: Tenant, file_id: object) -> object:
    with transaction.atomic():
        return queries.usable(tenant.pk, [file_id], lock=True)  # type: ignore[list-item]
