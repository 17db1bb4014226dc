"""The secrets of one home, made once and kept in HOME/secrets.json, readable by its owner alone."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex, token_urlsafe

from cryptography.fernet import Fernet


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


def load_or_make(home: Path) -> Secrets:
    """Reads the secrets of `home` and makes those that are missing; a secret once made is never replaced."""
    file = home / "secrets.json"
    known: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
    kept = Secrets(**{name: known.get(name) or make() for name, make in _MAKERS.items()})
    if asdict(kept) != known:
        write_private(file, json.dumps(asdict(kept), indent=2))
    return kept


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
