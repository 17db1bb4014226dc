"""A credential is sealed where it stands: it opens there, with any key that is still listed, and nowhere else."""

from typing import Any

import pytest
from cryptography.fernet import Fernet

from pool.models import UpstreamAccount
from pool.secrets import SecretUnreadable, open_sealed, seal
from tests import factories

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))


def test_what_is_sealed_opens_at_its_place_alone() -> None:
    sealed = seal("s3cret-ü", "account:1")
    assert "s3cret" not in sealed
    assert open_sealed(sealed, "account:1") == "s3cret-ü"
    with pytest.raises(SecretUnreadable, match="sealed for another place"):
        open_sealed(sealed, "account:2")


def test_the_first_key_seals_and_every_listed_key_opens(settings: Any) -> None:
    settings.FIELD_KEYS = f"old:{OLD}"
    by_old = seal("one", "here")
    settings.FIELD_KEYS = f"new:{NEW}, old:{OLD}"
    by_new = seal("two", "here")
    assert by_new.startswith("new:")
    assert (open_sealed(by_old, "here"), open_sealed(by_new, "here")) == ("one", "two")
    settings.FIELD_KEYS = f"new:{NEW}"
    with pytest.raises(SecretUnreadable, match="key 'old', which FIELD_KEYS does not have"):
        open_sealed(by_old, "here")


def test_a_value_that_does_not_open_is_an_error_and_never_a_value(settings: Any) -> None:
    settings.FIELD_KEYS = f"k:{OLD}"
    sealed = seal("one", "here")
    settings.FIELD_KEYS = f"k:{NEW}"
    for broken in (sealed, sealed[:-4] + "AAAA", "k:", "k:plain", "plain"):
        with pytest.raises(SecretUnreadable):
            open_sealed(broken, "here")


@pytest.mark.django_db
def test_an_accounts_credential_is_stored_sealed_and_cannot_be_moved() -> None:
    pool = factories.make_pool(accounts=2)
    one, other = UpstreamAccount.objects.filter(pool=pool).order_by("name")
    assert one.credential == "sim-acct-001"
    assert "sim-acct" not in one.sealed_credential
    other.sealed_credential = one.sealed_credential
    with pytest.raises(SecretUnreadable):
        _ = other.credential
    assert UpstreamAccount(pool=pool, name="without").credential == ""
