"""What lets read a file without a key: its id signed, with a time until which, or with a job for which.

What is sent to an upstream names the job: it is the same to the letter whenever it is sent, also after a restore. The key of
the signature is derived from SECRET_KEY; those of SECRET_KEY_FALLBACKS are understood. Django's signer compares in
constant time.
"""

import time
from uuid import UUID

from django.core import signing

_SALT = "files.tokens"


def for_seconds(file_id: UUID, seconds: float) -> str:
    """What lets read this file for `seconds` from now on."""
    return _signed(file_id, str(int(time.time() + seconds)))


def for_job(file_id: UUID, job_id: UUID) -> str:
    """What lets read this file for the job, always the same; for how long, whoever knows jobs decides (`job_of`)."""
    return _signed(file_id, str(job_id))


def is_valid(file_id: UUID, sent: str) -> bool:
    """Whether the token is ours, of this file, names a time, and that is not over."""
    expires, _, _ = sent.partition(".")
    if not expires.isascii() or not expires.isdigit() or len(expires) > 12:
        return False
    return _is_ours(file_id, sent) and int(expires) > time.time()


def job_of(file_id: UUID, sent: str) -> UUID | None:
    """The job that the token names; None: it names none, or is not ours, or not of this file."""
    try:
        job_id = UUID(sent.partition(".")[0])
    except ValueError:
        return None
    return job_id if _is_ours(file_id, sent) else None


def _signed(file_id: UUID, what: str) -> str:
    return f"{what}.{_signer().signature(f'{file_id}.{what}')}"


def _is_ours(file_id: UUID, sent: str) -> bool:
    what, _, signature = sent.partition(".")
    try:
        _signer().unsign(f"{file_id}.{what}:{signature}")
    except signing.BadSignature:
        return False
    return True


def _signer() -> signing.Signer:
    return signing.Signer(salt=_SALT)
