"""The environment of the children, and the part of it that other `manage.py` commands need."""

import os
from collections.abc import Mapping
from pathlib import Path

from broker_project.supervisor.secrets import Secrets

# What the operator may have set for all processes; `run.json` passes it on.
OPERATORS = (
    "SECRET_KEY_FALLBACKS",
    "BROKER_URL",
    "DEBUG",
    "ALLOWED_HOSTS",
    "LEASE_SECONDS",
    "SWEEP_SECONDS",
    "DRAIN_SECONDS",
    "DATABASE_POOL_SIZE",
    "PREPARED_STATEMENTS",
    "WEB_THREADS",
    "LOG_LEVEL",
    "LOG_FORMAT",
)


def shared_variables(home: Path, secrets: Secrets, urls: Mapping[str, str]) -> dict[str, str]:
    """Keys that the operator set win over those of the home."""
    own = {"SECRET_KEY": secrets.secret_key, "FIELD_KEYS": secrets.field_keys, "KEY_PEPPERS": secrets.key_peppers}
    return {
        "BERTH_HOME": str(home),
        **urls,
        **{name: os.environ.get(name) or value for name, value in own.items()},
        **{name: os.environ[name] for name in OPERATORS if name in os.environ},
    }


def child_environment(shared: Mapping[str, str]) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        # Without byte code on disk every start and every restart would compile all of Django anew.
        if name != "PYTHONDONTWRITEBYTECODE"
    }
    return {**inherited, "DJANGO_SETTINGS_MODULE": "broker_project.settings", "PYTHONUNBUFFERED": "1", **shared}
