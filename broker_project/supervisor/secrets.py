"""The secrets of one home, made once and kept in HOME/secrets.json, readable by its owner alone."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex, token_urlsafe

from cryptography.fernet import Fernet

from broker_project.supervisor.errors import StartFailed


@dataclass(frozen=True)
class Secrets:
    """`admin_password` opens both the admin and Flower, so an operator keeps one login."""

    secret_key: str
    field_keys: str
    key_peppers: str
    database_password: str
    redis_password: str
    admin_password: str


_MAKERS: dict[str, Callable[[], str]] = {
    "secret_key": lambda: token_urlsafe(48),
    "field_keys": lambda: f"k1:{Fernet.generate_key().decode()}",
    "key_peppers": lambda: f"1:{token_hex(32)}",
    "database_password": lambda: token_hex(20),
    "redis_password": lambda: token_hex(20),
    "admin_password": lambda: token_urlsafe(12),
}


# Without these what the database holds is lost: they are made for an empty home alone.
_SEALING = ("secret_key", "field_keys", "key_peppers")


def load_or_make(home: Path) -> Secrets:
    """Reads the secrets of `home` and makes those that are missing; one once made is never replaced. Raises StartFailed."""
    file = home / "secrets.json"
    known = _read(file) if file.exists() else {}
    lost = sorted(name for name in _SEALING if not known.get(name))
    if known and lost:
        raise StartFailed(
            f"{file} has no {' and no '.join(lost)}: what was sealed with it could not be opened. Put it back from a"
            " backup; only if nothing is to be kept, move the whole home away."
        )
    kept = Secrets(**{name: known.get(name) or make() for name, make in _MAKERS.items()})
    if asdict(kept) != known:
        write_private(file, json.dumps(asdict(kept), indent=2))
    return kept


def _read(file: Path) -> dict[str, str]:
    try:
        known = json.loads(file.read_text())
    except ValueError as error:
        raise StartFailed(f"{file} cannot be read ({error}): put it back from a backup") from error
    if not isinstance(known, dict) or not all(isinstance(value, str) for value in known.values()):
        raise StartFailed(f"{file} is no map of texts: put it back from a backup")
    return known


def write_private(file: Path, text: str) -> None:
    """Replaces `file` by rename, with mode 0600 from the first byte: a reader sees the old text or the new one."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.rename(file)
    except OSError:
        fresh.unlink(missing_ok=True)  # no room for it: what stood there stays
        raise
