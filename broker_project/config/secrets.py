"""Credentials in the file: by {env: NAME} or {file: PATH}; a literal only with DEBUG. What is wrong never shows a value."""

import os
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from broker_project.config.findings import Findings, Place

MAX_SECRET_BYTES: Final = 100_000
LEFT_OUT: Final = "(left out)"


class Secret(str):
    """A credential. Shown as nothing, so that no plan or error prints it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def credential(value: Any, place: Place, findings: Findings) -> Secret:
    try:
        found = _found(value)
    except ValueError as error:
        findings.error(place, str(error))
        return Secret()
    return Secret(found)


def without_secret(account: dict[str, Any]) -> dict[str, Any]:
    """An account as written, fit to be stored and shown."""
    kept = dict(account)
    if isinstance(kept.get("credential"), str):
        kept["credential"] = LEFT_OUT
    if isinstance(kept.get("refresh"), dict):
        kept["refresh"] = {**kept["refresh"], "body": LEFT_OUT}
    return kept


def _found(value: Any) -> str:
    if isinstance(value, str) and value:
        if settings.DEBUG:
            return value
        raise ValueError("is written out; outside of DEBUG a secret is {env: NAME} or {file: PATH}")
    if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= {"env", "file"}:
        raise ValueError("is {env: NAME} or {file: PATH}")
    ((kind, name),) = value.items()
    if not isinstance(name, str) or not name:
        raise ValueError(f"{kind} is the name of {'a variable' if kind == 'env' else 'a file'}")
    return _from_environment(name) if kind == "env" else _from_file(name)


def _from_environment(name: str) -> str:
    if not (found := os.environ.get(name, "")):
        raise ValueError(f"the environment variable {name} is not set, or empty")
    return found


def _from_file(name: str) -> str:
    try:
        with Path(name).open(encoding="utf-8") as file:
            found = file.read(MAX_SECRET_BYTES + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the file {name} cannot be read: {getattr(error, 'strerror', None) or 'not text'}") from None
    if not found or "\x00" in found or len(found) > MAX_SECRET_BYTES:
        raise ValueError(f"the file {name} holds no usable secret")
    return found
