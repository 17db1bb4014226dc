"""The keys an installation brings: those that stand in for them in development, and whether what was brought can be read.

A mistake stops the start and is named without showing a key.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Final

from django.core.exceptions import ImproperlyConfigured

FERNET_BYTES: Final = 32
FEWEST_PEPPER_BYTES: Final = 16
LONGEST_PEPPER_ID: Final = 20  # the column that keeps it

# With DEBUG only, and for `up`, which makes keys of its own. They protect nothing.
DEVELOPMENT: Final = {
    "SECRET_KEY": "development-only-key-that-protects-nothing-at-all-0123456789",
    "FIELD_KEYS": "k0:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
    "KEY_PEPPERS": "0:00112233445566778899aabbccddeeff",
}


def check_field_keys(text: str) -> None:
    """`k2:<fernet>,k1:<fernet>`. Raises ImproperlyConfigured."""
    _check("FIELD_KEYS", "k2:<fernet>,k1:<fernet>", text, _fernet_mistake)


def check_key_peppers(text: str) -> None:
    """`2:<hex>,1:<hex>`. Raises ImproperlyConfigured."""
    _check("KEY_PEPPERS", "2:<hex>,1:<hex>", text, _pepper_mistake)


def _check(variable: str, form: str, text: str, mistake_of: Callable[[str, str], str]) -> None:
    pairs = [entry.strip().partition(":") for entry in text.split(",") if entry.strip()]
    mistakes = [] if pairs else ["it is empty"]
    for number, (name, _, key) in enumerate(pairs, 1):
        if not name or not key:
            mistakes.append(f"entry {number} is not NAME:KEY")
        elif mistake := mistake_of(name, key):
            mistakes.append(f"entry {number}: {mistake}")
    if len({name for name, _, _ in pairs}) < len(pairs):
        mistakes.append("a name stands twice")
    if mistakes:
        raise ImproperlyConfigured(f"{variable} must be `{form}`: {'; '.join(mistakes)}")


def _fernet_mistake(_name: str, key: str) -> str:
    try:
        # Strictly: the tolerant way drops what is no digit, and would take a key that was cut and glued.
        size = len(base64.b64decode(key.encode(), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        size = 0
    return (
        ""
        if size == FERNET_BYTES
        else "the key is not 32 bytes in URL-safe base64, as Fernet.generate_key() makes them"
    )


def _pepper_mistake(name: str, pepper: str) -> str:
    if len(name) > LONGEST_PEPPER_ID:
        return f"the name has more than {LONGEST_PEPPER_ID} characters"
    try:
        size = len(bytes.fromhex(pepper))
    except ValueError:
        size = 0
    return "" if size >= FEWEST_PEPPER_BYTES else f"the pepper is not at least {FEWEST_PEPPER_BYTES} bytes in hex"
