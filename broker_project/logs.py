"""How a log line looks: `time LEVEL logger message field=value …`, or one JSON object with LOG_FORMAT=json.

Modules log with the standard library. Fields come from `extra={"job": …}` on the line itself, or from
`structlog.contextvars` bound around a request or a task; every line has the `role` of its process.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog
from django.core.exceptions import ImproperlyConfigured
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict

from broker_project.masking import Masker, secrets_of
from broker_project.process import role

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FORMATS: Final = ("text", "json")
# What a line may carry by `extra`. Others are left out: Django, for one, attaches the whole request.
FIELDS: Final = ("job", "attempt", "tenant", "pool", "account", "session", "task", "code", "key", "actor", "count")
_HEAD: Final = ("timestamp", "level", "logger", "event")
_ORDER: Final = {name: place for place, name in enumerate((*_HEAD, "request_id", *FIELDS, "role"))}
_WORDS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/@+*-")


def check(level: str, form: str) -> None:
    """Raises ImproperlyConfigured when LOG_LEVEL or LOG_FORMAT is none of those there are."""
    for name, value, known in (("LOG_LEVEL", level, LEVELS), ("LOG_FORMAT", form, FORMATS)):
        if value not in known:
            raise ImproperlyConfigured(f"{name} must be {', '.join(known[:-1])} or {known[-1]}")


def formatter(form: str) -> ProcessorFormatter:
    """Made by `logging.config` from the settings; `form` is one of FORMATS."""
    from django.conf import settings  # they name this function

    return ProcessorFormatter(
        foreign_pre_chain=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.ExtraAdder(FIELDS),
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _add_role,
        ],
        processors=[
            ProcessorFormatter.remove_processors_meta,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            _masked(Masker(secrets_of(settings))),
            _json if form == "json" else _text,
        ],
    )


def fields_of_task(name: str, arguments: Sequence[Any]) -> dict[str, Any]:
    """What a Celery task is about: its name, its pool, or its job where it has but one."""
    first = arguments[0] if arguments else None
    if isinstance(first, list):
        return {"task": name, **({"job": first[0]} if len(first) == 1 else {"count": len(first)})}
    return {"task": name, **({} if first is None else {"pool": first})}


def _add_role(_logger: Any, _method: str, event: EventDict) -> EventDict:
    event.setdefault("role", role())
    return event


def _masked(masker: Masker) -> Callable[[Any, str, EventDict], EventDict]:
    """The fields in their order, without secrets."""

    def mask(_logger: Any, _method: str, event: EventDict) -> EventDict:
        known = sorted(event.items(), key=lambda field: _ORDER.get(field[0], len(_ORDER)))
        return {name: masker.field(name, value) for name, value in known if value is not None}

    return mask


def _json(_logger: Any, _method: str, event: EventDict) -> str:
    return json.dumps(event, ensure_ascii=False)


def _text(_logger: Any, _method: str, event: EventDict) -> str:
    time, level, name, said = (str(event.pop(part, "")) for part in _HEAD)
    below = [str(event.pop(part)) for part in ("exception", "stack") if part in event]
    fields = "".join(f" {field}={_value(value)}" for field, value in event.items())
    # Neither a message nor an exception's words can look like a line of their own.
    indented = "".join("\n    " + line for text in below for line in text.splitlines())
    return f"{time} {level.upper()} {name} {_on_one_line(said)}{fields}{indented}"


def _value(value: Any) -> str:
    text = str(value)
    return text if text and _WORDS.issuperset(text) else json.dumps(text, ensure_ascii=False)


def _on_one_line(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
