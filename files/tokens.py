"""An address that may be read without a key until a time: the file's id and that time, signed.

The key of the signature is derived from SECRET_KEY; Django's signer compares in constant time.
"""

import time
from uuid import UUID

from django.core import signing

_SALT = "files.tokens"


def token(file_id: UUID, seconds: float) -> str:
    """What lets read this file for `seconds` from now on."""
    expires = int(time.time() + seconds)
    return f"{expires}.{_signer().signature(f'{file_id}.{expires}')}"


def is_valid(file_id: UUID, sent: str) -> bool:
    """Whether the token is ours, of this file, and not over."""
    expires, _, signature = sent.partition(".")
    if not expires.isascii() or not expires.isdigit() or len(expires) > 12:
        return False
    try:
        _signer().unsign(f"{file_id}.{expires}:{signature}")
    except signing.BadSignature:
        return False
    return int(expires) > time.time()


def _signer() -> signing.Signer:
    return signing.Signer(salt=_SALT)
