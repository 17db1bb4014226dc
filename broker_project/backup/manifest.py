"""What a backup says of itself: of when and of what it is, what it does not hold, and which keys it needs."""

import hashlib
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.conf import settings
from django.db.migrations.loader import MigrationLoader

from broker_project.backup import server

KEYS: Final = ("FIELD_KEYS", "KEY_PEPPERS")
NOT_HELD: Final = (
    "files of tenants (their bytes; the rows are held): copy the storage after the backup",
    "FIELD_KEYS and KEY_PEPPERS, without which credentials and API keys in it are worth nothing: keep a copy apart",
    "Redis: it holds nothing that is needed",
)
_FACTS: Final = {
    "taken_at": "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')",
    "jobs": "SELECT count(*) FROM jobs_job WHERE state IN ('pending', 'assigned', 'processing')",
    "files": "SELECT count(*) FROM files_file WHERE stored_at IS NOT NULL AND gone_at IS NULL",
    "file_bytes": "SELECT COALESCE(sum(size), 0)::bigint FROM files_file WHERE stored_at IS NOT NULL AND gone_at IS NULL",
}


def facts(connection: Any) -> dict[str, Any]:
    """Asked within the snapshot of the dump. `jobs` are those that have not ended."""
    found = {name: server.rows(connection, question)[0][0] for name, question in _FACTS.items()}
    applied = server.rows(connection, "SELECT app, name FROM django_migrations ORDER BY app, name")
    return {
        **found,
        "version": version(),
        "migrations": [f"{app}.{name}" for app, name in applied],
        "postgres": server.major(connection),
        "keys": fingerprints(),
        "not_held": NOT_HELD,
    }


def version() -> str:
    """Berth's, as pyproject.toml says."""
    return str(tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())["project"]["version"])


def unknown(migrations: Iterable[str]) -> list[str]:
    """Those of the migrations that this version of Berth does not have: the backup is of a newer one."""
    here = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    known = {f"{app}.{name}" for app, name in here}
    replaced = {f"{app}.{name}" for each in here.values() for app, name in each.replaces}
    return [name for name in migrations if name not in known | replaced]


def fingerprints() -> dict[str, dict[str, str]]:
    """Of each key of this installation by its id. The keys have 128 bits and more, so this gives nothing away."""
    return {variable: _fingerprints_of(variable) for variable in KEYS}


def missing_keys(manifest: Mapping[str, Any]) -> list[str]:
    """Keys that the backup was made with and that this installation does not have, or has another of."""
    here = fingerprints()
    return [
        f"{variable} {name}"
        for variable, keys in manifest["keys"].items()
        for name, print_ in keys.items()
        if here[variable].get(name) != print_
    ]


def _fingerprints_of(variable: str) -> dict[str, str]:
    pairs = [entry.strip().partition(":") for entry in getattr(settings, variable).split(",") if entry.strip()]
    return {name: hashlib.sha256(f"berth {variable} {key}".encode()).hexdigest()[:16] for name, _, key in pairs}
