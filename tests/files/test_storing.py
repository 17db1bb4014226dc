"""A file arrives, is counted, and is there with its last byte; what fails on the way leaves neither bytes nor counts."""

import hashlib
import io
from uuid import uuid4

import pytest
from django.core.files.storage import default_storage
from django.db import transaction

from files import leaving, reading, storing
from files.errors import FileCut, FileGone, FileTooLarge, NoSuchFile, TenantFull
from files.models import File, Usage
from tenants.models import Tenant
from tests import factories
from tests.db import execute, in_another_connection, wait_until_blocked_by_us
from tests.files.conftest import put, stored_places


class Breaking(io.BytesIO):
    """A sender that goes away."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell():
            raise ConnectionResetError("gone")
        return super().read(size)


def nobody(_job_ids: object) -> set[object]:
    return set()


@pytest.mark.django_db
def test_what_was_stored_is_read_again(tenant: Tenant) -> None:
    content = bytes(range(256)) * 3_000
    row = put(tenant, content)
    with reading.open_bytes(reading.of_tenant(tenant.pk, row["id"])) as found:
        assert found.read() == content
    assert row["sha256"] == hashlib.sha256(content).hexdigest()
    assert Usage.objects.get(tenant=tenant).input_bytes == len(content)


@pytest.mark.django_db
def test_bytes_are_asked_for_in_pieces(tenant: Tenant) -> None:
    class Watched(io.BytesIO):
        most = 0

        def read(self, size: int | None = -1, /) -> bytes:
            Watched.most = max(Watched.most, size if size is not None and size >= 0 else 10**9)
            return super().read(size)

    storing.put(
        tenant.pk, Watched(b"x" * 2_000_000), kind="input", size=2_000_000, name="", content_type="a/b", keep_seconds=60
    )
    assert Watched.most <= storing.CHUNK_BYTES


@pytest.mark.django_db
@pytest.mark.parametrize(("announced", "fact"), [(4, FileTooLarge), (6, FileCut)])
def test_other_than_announced_is_refused_and_leaves_nothing(
    tenant: Tenant, announced: int, fact: type[Exception]
) -> None:
    with pytest.raises(fact):
        put(tenant, b"bytes", size=announced)
    assert stored_places() == set()
    assert Usage.objects.get(tenant=tenant).input_bytes == 0
    assert File.objects.get().gone_at is not None


@pytest.mark.django_db
def test_a_sender_that_goes_away_leaves_nothing(tenant: Tenant) -> None:
    with pytest.raises(ConnectionResetError):
        storing.put(
            tenant.pk,
            Breaking(b"x" * 600_000),
            kind="input",
            size=600_000,
            name="",
            content_type="a/b",
            keep_seconds=60,
        )
    assert stored_places() == set()
    assert Usage.objects.get(tenant=tenant).input_bytes == 0


@pytest.mark.django_db
def test_a_crash_while_bytes_are_written_is_cleaned_up(tenant: Tenant) -> None:
    file_id, place = storing.begin(tenant.pk, "input", 5, name="", content_type="a/b")
    default_storage.save(place, storing.Counted(io.BytesIO(b"byt"), 5))
    with pytest.raises(NoSuchFile):
        reading.of_tenant(tenant.pk, file_id)
    leaving.expire(nobody, 10)
    assert stored_places() == {place}, "it may still arrive"
    execute("UPDATE files_file SET expires_at = now() - interval '1 second'")
    leaving.expire(nobody, 10)
    leaving.remove(10)
    assert stored_places() == set()
    assert Usage.objects.get(tenant=tenant).input_bytes == 0
    with pytest.raises(FileCut):
        storing.complete(file_id, 5, "f" * 64, 60, None)


@pytest.mark.django_db
@pytest.mark.parametrize("harm", ["lost", "cut"])
def test_lost_bytes_are_gone_and_never_served(tenant: Tenant, harm: str) -> None:
    row = put(tenant)
    found = reading.of_tenant(tenant.pk, row["id"])
    default_storage.delete(found["place"])
    if harm == "cut":
        default_storage.save(found["place"], storing.Counted(io.BytesIO(b"by"), 2))
    with pytest.raises(FileGone):
        reading.open_bytes(found)


@pytest.mark.django_db
def test_anothers_file_is_none(tenant: Tenant) -> None:
    row = put(tenant)
    with pytest.raises(NoSuchFile):
        reading.of_tenant(factories.make_tenant().pk, row["id"])
    with pytest.raises(NoSuchFile):
        reading.of_tenant(tenant.pk, uuid4())


@pytest.mark.django_db
def test_what_a_tenant_may_keep_is_exact(tenant: Tenant) -> None:
    put(tenant, b"12345", most_bytes=9)
    with pytest.raises(TenantFull) as found:
        put(tenant, b"12345", most_bytes=9)
    assert (found.value.limit, found.value.used, found.value.required) == (9, 5, 5)
    put(tenant, b"1234", most_bytes=9)
    put(tenant, b"1234", kind="result")


@pytest.mark.django_db(transaction=True)
def test_two_arrivals_at_once_do_not_both_fit(tenant: Tenant) -> None:
    with transaction.atomic():
        storing.begin(tenant.pk, "input", 5, 9, name="", content_type="a/b")
        other = in_another_connection(lambda: put(tenant, b"12345", most_bytes=9))
        wait_until_blocked_by_us()
    with pytest.raises(TenantFull):
        other.result(10)
    assert Usage.objects.get(tenant=tenant).input_bytes == 5
