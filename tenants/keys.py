"""API keys: `berth_<public id, 12><secret, 32><check, 6>` as `berth_<public>_<secret><check>`, all in base 62.

The check is a CRC32, so that a mistyped or cut key is refused without asking the database. Of the secret only an HMAC
under a pepper from KEY_PEPPERS is kept: it has 190 bits, so no slow hash is needed. Answers are kept for a second, also
the negative ones; a revoked key is refused within that second.
"""

import hashlib
import hmac
import logging
import re
import secrets
import string
import time
import zlib
from collections.abc import Iterable
from datetime import timedelta
from functools import lru_cache

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now

from statemachine.actors import current_actor
from statemachine.sql import load
from tenants.models import ApiKey, Tenant

logger = logging.getLogger(__name__)
SCOPES = ("jobs:write", "jobs:read", "ledger:read", "webhooks:write", "keys:write")
DEFAULT_SCOPES = ("jobs:write", "jobs:read", "ledger:read")
KEPT_SECONDS = 1.0
MOST_KEPT = 10_000
USE_NOTED_EVERY = timedelta(minutes=1)

_BASE62 = string.digits + string.ascii_letters
_FORM = re.compile(r"berth_([0-9A-Za-z]{12})_([0-9A-Za-z]{32})([0-9A-Za-z]{6})")
_kept: dict[bytes, tuple[float, ApiKey | None]] = {}


class UnknownScope(ValueError):
    """A key was asked for with a scope that does not exist."""


class IssuedAlready(Exception):
    """A key was made for the same `once` before; it cannot be shown again."""


def issue(tenant: Tenant, name: str = "", scopes: Iterable[str] = DEFAULT_SCOPES, once: str = "") -> str:
    """Makes a key and returns it; it cannot be shown again. The same `once` makes one key, whatever is sent twice.

    Raises UnknownScope, IssuedAlready.
    """
    wanted = list(dict.fromkeys(scopes))
    if unknown := sorted(set(wanted) - set(SCOPES)):
        raise UnknownScope(f"no such scope: {', '.join(unknown)}; there are {', '.join(SCOPES)}")
    public_id, secret = _once(once) if once else _random(12), _random(32)
    pepper_id = next(iter(_peppers(settings.KEY_PEPPERS)))
    made = ApiKey(
        tenant=tenant,
        public_id=public_id,
        secret_hash=_hash(pepper_id, secret),
        pepper=pepper_id,
        name=name,
        scopes=wanted,
    )
    try:
        with transaction.atomic():
            made.save(force_insert=True)
    except IntegrityError as error:
        if not once:
            raise
        raise IssuedAlready(public_id) from error
    body = f"berth_{public_id}_{secret}"
    logger.info("API key issued", extra={"key": public_id, "tenant": tenant.name, "actor": current_actor()})
    return body + _check(body)


def revoke(key_id: int) -> bool:
    """The key is refused from now on, within a second everywhere. False: it was revoked before.

    One conditional update of its row: a second caller waits there and finds it revoked.
    """
    revoked = bool(ApiKey.objects.filter(pk=key_id, revoked_at=None).update(revoked_at=Now()))
    if revoked:
        public_id = ApiKey.objects.values_list("public_id", flat=True).get(pk=key_id)
        logger.info("API key revoked", extra={"key": public_id, "actor": current_actor()})
    return revoked


def verify(key: str) -> ApiKey | None:
    """The valid, unrevoked, unexpired key with its tenant, or None. The answer may be a second old."""
    form = _FORM.fullmatch(key)
    if form is None or not hmac.compare_digest(_check(key[:-6]), form[3]):
        return None
    now = time.monotonic()
    kept_under = hashlib.sha256(key.encode()).digest()
    kept = _kept.get(kept_under)
    if kept is not None and kept[0] > now:
        return kept[1]
    found = _look_up(form[1], form[2])
    if len(_kept) >= MOST_KEPT:
        _kept.clear()
    _kept[kept_under] = (now + KEPT_SECONDS, found)
    return found


def forget() -> None:
    """Drops the kept answers of this process, e.g. between tests."""
    _kept.clear()


def _look_up(public_id: str, secret: str) -> ApiKey | None:
    alive = "public_id = %s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())"
    found = next(iter(load(ApiKey, alive, [public_id])), None)
    if found is None or found.pepper not in _peppers(settings.KEY_PEPPERS):
        return None
    if not hmac.compare_digest(bytes(found.secret_hash), _hash(found.pepper, secret)):
        return None
    found.tenant = load(Tenant, "id = %s", [found.tenant_id])[0]
    _note_use(found)
    return found


def _note_use(key: ApiKey) -> None:
    """At most once a minute, by a conditional update: many processes may see the key at once."""
    old = Q(last_used_at=None) | Q(last_used_at__lt=Now() - USE_NOTED_EVERY)
    if key.last_used_at is None or time.time() - key.last_used_at.timestamp() > USE_NOTED_EVERY.total_seconds():
        ApiKey.objects.filter(old, pk=key.pk).update(last_used_at=Now())


def _once(text: str) -> str:
    """A public id that the same text leads to, and nobody else can foresee."""
    number = int.from_bytes(hmac.digest(settings.SECRET_KEY.encode(), text.encode(), "sha256"), "big")
    return "".join(_BASE62[number // 62**place % 62] for place in range(12))


def _random(length: int) -> str:
    return "".join(secrets.choice(_BASE62) for _ in range(length))


def _check(body: str) -> str:
    """The CRC32 of `body` as six digits of base 62."""
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits


def _hash(pepper_id: str, secret: str) -> bytes:
    return hmac.digest(_peppers(settings.KEY_PEPPERS)[pepper_id], secret.encode(), "sha256")


@lru_cache(maxsize=4)
def _peppers(text: str) -> dict[str, bytes]:
    pairs = [entry.strip().partition(":") for entry in text.split(",") if entry.strip()]
    return {pepper_id: bytes.fromhex(pepper) for pepper_id, _, pepper in pairs}
