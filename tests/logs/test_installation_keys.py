"""Keys that cannot be read stop the start, with the name of their variable and without their value."""

import base64
import os
import subprocess
import sys

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from broker_project.installation_keys import DEVELOPMENT, check_field_keys, check_key_peppers

# Always the same, for they stand in the names of tests, which several processes have to agree on.
FERNET, OTHER = (base64.urlsafe_b64encode(byte * 32).decode() for byte in (b"k", b"o"))
PEPPER = "00112233445566778899aabbccddeeff"


@pytest.mark.parametrize("text", [f"k1:{FERNET}", f" k2:{FERNET} , k1:{OTHER},"])
def test_keys_that_can_be_read_are_taken(text: str) -> None:
    check_field_keys(text)
    check_field_keys(DEVELOPMENT["FIELD_KEYS"])
    check_key_peppers(f"2:{PEPPER * 2},1:{PEPPER}")
    check_key_peppers(DEVELOPMENT["KEY_PEPPERS"])


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "it is empty"),
        (",", "it is empty"),
        (FERNET, "entry 1 is not NAME:KEY"),
        (f":{FERNET}", "entry 1 is not NAME:KEY"),
        (f"k2:{FERNET},k1:", "entry 2 is not NAME:KEY"),
        (f"k1:{FERNET[:-4]}", "entry 1: the key is not 32 bytes"),
        (f"k1:{FERNET[:20]} {FERNET[20:]}", "entry 1: the key is not 32 bytes"),
        (f"k1:{FERNET},k1:{FERNET}", "a name stands twice"),
    ],
)
def test_a_field_key_that_opens_nothing_is_refused(text: str, mistake: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^FIELD_KEYS must be") as refused:
        check_field_keys(text)
    assert mistake in str(refused.value)
    assert FERNET not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "it is empty"),
        (PEPPER, "entry 1 is not NAME:KEY"),
        ("1:secret", "entry 1: the pepper is not at least 16 bytes in hex"),
        (f"1:{PEPPER[:-2]}", "entry 1: the pepper is not at least 16 bytes in hex"),
        (f"{'n' * 21}:{PEPPER}", "entry 1: the name has more than 20 characters"),
        (f"1:{PEPPER},1:{PEPPER}", "a name stands twice"),
    ],
)
def test_a_pepper_that_seals_nothing_is_refused(text: str, mistake: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^KEY_PEPPERS must be") as refused:
        check_key_peppers(text)
    assert mistake in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("FIELD_KEYS", "k1:canary-c4n4ry", "FIELD_KEYS must be"),
        ("KEY_PEPPERS", "canary-c4n4ry", "KEY_PEPPERS must be"),
        ("DATABASE_POOL_SIZE", "1", "DATABASE_POOL_SIZE must be at least 2"),
        ("LOG_FORMAT", "xml", "LOG_FORMAT must be text or json"),
        ("LOG_LEVEL", "loud", "LOG_LEVEL must be"),
    ],
)
def test_a_wrong_value_stops_the_start(variable: str, value: str, said: str) -> None:
    """As every process begins: by reading the settings."""
    started = subprocess.run(
        [sys.executable, "-c", "import broker_project.settings"],
        cwd=settings.BASE_DIR,
        env={**os.environ, variable: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert started.returncode != 0
    assert started.stderr.splitlines()[-1].startswith(f"django.core.exceptions.ImproperlyConfigured: {said}")
    assert "c4n4ry" not in started.stderr
