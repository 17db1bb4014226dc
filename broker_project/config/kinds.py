"""The kinds of values a field may have. Each reads a value or notes what is wrong with it, and where."""

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from broker_project.config.findings import Findings, Place
from upstream.adapters import UnknownAdapterError, adapter
from upstream.expressions import ExpressionError, compile_expression, compile_path
from upstream.presets import names as preset_names
from upstream.quantities import duration_ms, rate, size_bytes
from upstream.spec import SpecError, sending

Kind = Callable[[Any, Place, Findings], Any]
DAY_MS: Final = 86_400_000
LONGEST_MS: Final = 366 * DAY_MS
LONGEST_NAME: Final = 100
A_TEXT: Final = "is an expression, in which a text needs quotes of its own, within those of the file: \"'/run'\""
_PLAIN = re.compile(r"[\w\s./:?&=%@~$,;{}-]*[\s/:-][\w\s./:?&=%@~$,;{}-]*")
_OPERATOR = re.compile(r"==|&&|\s[?:/%-]\s")


@dataclass(frozen=True)
class Field:
    """A field of a table. `later`: checked now, its work is not there yet; said in a warning unless it is the default."""

    kind: Kind
    default: Any = None
    required: str = ""  # why it is; shown when it is missing
    later: bool = False


def table(fields: Mapping[str, Field]) -> Kind:
    """A map with known names. What is null or left out has its default."""

    def read(value: Any, place: Place, findings: Findings) -> dict[str, Any]:
        given = value if isinstance(value, dict) else {}
        if not isinstance(value, dict | None):
            findings.error(place, f"is a map with some of {', '.join(fields)}; this is {_kind_of(value)}")
        for name in given.keys() - fields.keys():
            findings.error(place.field(name), f"is not known here{_hint(name, fields)}")
        return {name: _field(name, field, given.get(name), place, findings) for name, field in fields.items()}

    return read


def map_of(kind: Kind, check_name: bool = True) -> Kind:
    """A map whose names are free."""

    def read(value: Any, place: Place, findings: Findings) -> dict[str, Any]:
        if not isinstance(value, dict):
            findings.error(place, f"is a map of names; this is {_kind_of(value)}")
            return {}
        for name in value:
            if check_name and (not 0 < len(name) <= LONGEST_NAME or name != name.strip() or not name.isprintable()):
                findings.error(place.entry(name), f"a name has 1 to {LONGEST_NAME} printable characters")
        return {name: kind(item, place.entry(name), findings) for name, item in value.items()}

    return read


def list_of(kind: Kind) -> Kind:
    def read(value: Any, place: Place, findings: Findings) -> list[Any]:
        if not isinstance(value, list):
            findings.error(place, f"is a list; this is {_kind_of(value)}")
            return []
        return [kind(item, place.entry(number), findings) for number, item in enumerate(value)]

    return read


def value_of(read: Callable[[Any], Any]) -> Kind:
    """A single value; `read` raises ValueError with what is wrong. The field then counts as left out."""

    def checked(value: Any, place: Place, findings: Findings) -> Any:
        try:
            return read(value)
        except ValueError as error:
            findings.error(place, str(error))
            return None

    return checked


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"is a text; this is {_kind_of(value)}")
    return value


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"is true or false; this is {_kind_of(value)}")
    return value


def whole(least: int = 0, most: int = 1_000_000_000) -> Kind:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"is a whole number from {least} to {most}; this is {_kind_of(value)}")
        return value

    return value_of(read)


def number(least: float = 0, most: float = 1e9, above: bool = False) -> Kind:
    """From `least` on, or only `above` it."""

    def read(value: Any) -> float:
        fine = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not fine or not least <= value <= most or (above and value == least):
            raise ValueError(
                f"is a number {'above' if above else 'from'} {least:g} to {most:g}; this is {_kind_of(value)}"
            )
        return float(value)

    return value_of(read)


def duration(least_ms: int = 0, most_ms: int = LONGEST_MS) -> Kind:
    """In milliseconds."""

    def read(value: Any) -> int:
        found = duration_ms(value)
        if not least_ms <= found <= most_ms:
            raise ValueError(f"is from {least_ms}ms to {most_ms // DAY_MS}d; this is {value}")
        return found

    return value_of(read)


def size(most_bytes: int) -> Kind:
    def read(value: Any) -> int:
        found = size_bytes(value)
        if not 0 < found <= most_bytes:
            raise ValueError(f"is more than 0 and at most {most_bytes} bytes; this is {value}")
        return found

    return value_of(read)


def choice(*values: str) -> Kind:
    def read(value: Any) -> str:
        if value not in values:
            raise ValueError(f"is one of {', '.join(values)}; this is {_kind_of(value)}")
        return str(value)

    return value_of(read)


def expression(names: frozenset[str], in_path: bool = False) -> Kind:
    """CEL over `names`, kept as text."""

    def read(value: Any) -> str:
        try:
            (compile_path if in_path else compile_expression)(value, names)
        except ExpressionError as error:
            raise ValueError(_in_other_words(value, names, str(error))) from None
        return str(value)

    return value_of(read)


def header_over(names: frozenset[str]) -> Kind:
    """The expression of one header; its name is the last part of its place. Null: not sent."""

    def read(value: Any, place: Place, findings: Findings) -> str | None:
        name = place.path.rpartition("headers.")[2]
        try:
            # The same check that a call makes, so that what is accepted here can be sent.
            sending("call", {"path": "'/'"}, {name: value}, names, method="GET")
        except SpecError as error:
            findings.error(place, _in_other_words(value, names, str(error).removeprefix(f"headers.{name}: ")))
        return value if isinstance(value, str) else None

    return read


def _in_other_words(value: Any, names: frozenset[str], problem: str) -> str:
    """What is wrong with an expression; of a text that lacks its quotes it is not where the grammar stumbles over it."""
    if not isinstance(value, str) or not _PLAIN.fullmatch(value) or _OPERATOR.search(value):
        return problem
    return problem if re.split(r"\W", value, maxsplit=1)[0] in names else A_TEXT


def anything(value: Any, _place: Place, _findings: Findings) -> Any:
    return value


def base_url(value: Any) -> str:
    found = urlsplit(text(value))
    try:
        usable = found.scheme in ("http", "https") and found.hostname and (found.port or 1) and " " not in value
    except ValueError:
        usable = False
    if not usable or found.query or found.fragment:
        raise ValueError("is http:// or https://, a host and perhaps a path")
    if found.username or found.password:
        raise ValueError("has a user or password in it; credentials go into headers")
    return str(value)


def adapter_name(value: Any) -> str:
    """`simulator` is spoken to over HTTP, like any other upstream."""
    if value == "simulator":
        return "http"
    try:
        adapter(text(value))
    except UnknownAdapterError as error:
        raise ValueError(str(error)) from None
    return str(value)


def preset_name(value: Any) -> str:
    if text(value) not in preset_names():
        raise ValueError(f"there is no preset {value!r}; known are {', '.join(preset_names())}")
    return str(value)


def rate_limit(value: Any) -> list[int]:
    return list(rate(value))


def _field(name: str, field: Field, value: Any, place: Place, findings: Findings) -> Any:
    here = place.field(name)
    if value is None:
        if field.required:
            findings.error(here, f"is required: {field.required}")
        return field.default
    found = field.kind(value, here, findings)
    if found is None:
        return field.default
    if field.later and found != field.default:
        findings.later(here)
    return found


def _hint(name: str, fields: Mapping[str, Field]) -> str:
    close = difflib.get_close_matches(name, fields, 1)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(fields)}"


def _kind_of(value: Any) -> str:
    """How a wrong value is shown: by its kind where it may be long or a secret."""
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else repr(value)[:60]
