"""What changed in a row, in the words of the file: each field once, with the unit that is written there."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from credits.pricing import short_text
from upstream.quantities import duration_text, rate_text, size_text

Row = dict[str, Any]
Words = Callable[[Any], str]
LONGEST_VALUE: Final = 80


def differences(before: Row, after: Row, columns: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """Lines of `field: old -> new`. `before` and `after` are the row as declared, `columns` what else differs, by name.

    A column is told where no field that it comes from has changed: somebody else changed it, or a default is another now.
    """
    fields = sorted({name for name in (*before, *after) if before.get(name) != after.get(name)})
    lines = [_line(*leaf) for name in fields for leaf in _leaves(name, before.get(name), after.get(name))]
    for column, (old, new) in columns.items():
        for path, old_leaf, new_leaf in _leaves(column, old, new, open_none=True):
            field, words = _FIELDS.get(path) or _within(path)
            if not _comes_from(field) & set(fields):
                lines.append(_line(field, old_leaf, new_leaf, words))
    return lines


def credits_text(micro: int) -> str:
    """Micro-credits as the file writes credits."""
    return short_text(micro).replace(",", "")


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _pace(pause_ms: int) -> str:
    """A rate that makes this pause: of a second where there is one, else of whole seconds, as rates are written."""
    per_second = next((limit for limit in range(1, 1_001) if -(-1_000 // limit) == pause_ms), None)
    if per_second:
        return rate_text(per_second, 1_000)
    limit = 1_000 // math.gcd(pause_ms, 1_000)
    return rate_text(limit, pause_ms * limit)


def _rate(limit_and_ms: list[int]) -> str:
    return rate_text(*limit_and_ms)


def _written(value: Any) -> str:
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return written if len(written) <= LONGEST_VALUE else f"{written[:LONGEST_VALUE]}…"


# Columns, or what stands in them, whose name or unit is not that of the file.
_FIELDS: Final[dict[str, tuple[str, Words]]] = {
    "accepting": ("takes jobs", _yes),
    "cooldown_ms": ("cooldown", duration_text),
    "breaker.quarantine_ms": ("breaker.quarantine", duration_text),
    "breaker.max_ms": ("breaker.max", duration_text),
    "upstream.poll_rate": ("poll_rate", _rate),
    "upstream.balance.every_ms": ("balance.every", duration_text),
    "upstream.balance.most": ("balance.most", credits_text),
    "max_payload_bytes": ("max_payload", size_text),
    "start_deadline_ms": ("start_deadline", duration_text),
    "max_runtime_ms": ("max_runtime", duration_text),
    "retry.first_ms": ("retry.first", duration_text),
    "retry.max_ms": ("retry.max", duration_text),
    "retry.within_ms": ("retry.within", duration_text),
    "day_budget": ("budgets.day", credits_text),
    "month_budget": ("budgets.month", credits_text),
    "low_below": ("low_credits.below", credits_text),
    "low_pause_ms": ("low_credits.submit_rate", _pace),
    "max_file_bytes": ("max_file_bytes", size_text),
}
_BALANCE: Final = "upstream.balance."  # of a pool: the file has it beside upstream


def _within(path: str) -> tuple[str, Words]:
    return path.removeprefix("upstream.") if path.startswith(_BALANCE) else path, _written


def _comes_from(field: str) -> set[str]:
    root = field.partition(".")[0]
    return {"pool", "pools"} if root == "pool" else {root}


def _leaves(path: str, before: Any, after: Any, open_none: bool = False) -> Iterator[tuple[str, Any, Any]]:
    """What differs, by its dotted path; `open_none`: a map that came or went is told part by part."""
    if open_none:
        before = {} if before is None and isinstance(after, dict) else before
        after = {} if after is None and isinstance(before, dict) else after
    if not (isinstance(before, dict) and isinstance(after, dict)):
        yield path, before, after
        return
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield from _leaves(f"{path}.{name}", before.get(name), after.get(name), open_none)


def _line(field: str, before: Any, after: Any, words: Words = _written) -> str:
    old, new = ("none" if value is None else words(value) for value in (before, after))
    return f"{field}: {old} -> {new}"
