"""Sealing of upstream credentials: Fernet with rotating keys, bound to the place where the value stands.

A value that cannot be opened is an error, never a value: a wrong key must not be sent upstream as a password.
"""

import json

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings


class SecretUnreadable(Exception):
    """No key of FIELD_KEYS opens the value, or it was moved from another place."""


def seal(value: str, place: str) -> str:
    """`value` as `<key id>:<token>`, sealed with the first of FIELD_KEYS and bound to `place`."""
    key_id, key = _keys()[0]
    token = Fernet(key).encrypt(json.dumps({"place": place, "value": value}).encode())
    return f"{key_id}:{token.decode()}"


def open_sealed(sealed: str, place: str) -> str:
    """The value sealed by `seal` at the same `place`. Raises SecretUnreadable."""
    key_id, _, token = sealed.partition(":")
    key = dict(_keys()).get(key_id)
    if key is None:
        raise SecretUnreadable(f"the secret at {place} was sealed with key {key_id!r}, which FIELD_KEYS does not have")
    try:
        content = json.loads(Fernet(key).decrypt(token.encode()))
    except InvalidToken as error:
        raise SecretUnreadable(f"the secret at {place} does not open with key {key_id!r}") from error
    if content["place"] != place:
        raise SecretUnreadable(f"the secret at {place} was sealed for another place")
    return str(content["value"])


def seal_credential(value: str, pool_id: int, account: str) -> str:
    """An account's credential, bound to its account: moved to another one it does not open."""
    return seal(value, f"pool_upstreamaccount.credential:{pool_id}/{account}")


def open_credential(sealed: str, pool_id: int, account: str) -> str:
    """The credential sealed by `seal_credential`; empty when there is none. Raises SecretUnreadable."""
    return open_sealed(sealed, f"pool_upstreamaccount.credential:{pool_id}/{account}") if sealed else ""


def _keys() -> list[tuple[str, str]]:
    pairs = [entry.strip().partition(":") for entry in settings.FIELD_KEYS.split(",") if entry.strip()]
    return [(key_id, key) for key_id, _, key in pairs]
