"""Arithmetic of expressions as a reader of JSON expects it: 2 and 2.5 mix, 5 / 2 is 2.5, a whole number has no point.

CEL itself refuses the first and cuts the second; rewriting.py puts these functions in place of its operators.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote


def add(left: Any, right: Any) -> Any:
    if _is_number(left) and _is_number(right):
        return _calculate(left, right, lambda a, b: a + b)
    for kind in (str, list, bytes):
        if isinstance(left, kind) and isinstance(right, kind):
            return left + right  # type: ignore[operator]
    if isinstance(left, datetime | timedelta) and isinstance(right, datetime | timedelta):
        return left + right  # type: ignore[operator]
    raise TypeError(f"cannot add {_kind(left)} and {_kind(right)}")


def subtract(left: Any, right: Any) -> Any:
    if isinstance(left, datetime | timedelta) and isinstance(right, datetime | timedelta):
        return left - right  # type: ignore[operator]
    return _calculate(left, right, lambda a, b: a - b, "subtract")


def multiply(left: Any, right: Any) -> Any:
    return _calculate(left, right, lambda a, b: a * b, "multiply")


def divide(left: Any, right: Any) -> Any:
    _numbers(left, right, "divide")
    if right == 0:
        raise ZeroDivisionError("division by zero")
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    return _plain(_exact(left) / _exact(right))


def remainder(left: Any, right: Any) -> Any:
    """The sign is the dividend's, as in CEL."""
    _numbers(left, right, "divide")
    if right == 0:
        raise ZeroDivisionError("division by zero")
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) % abs(right) * (-1 if left < 0 else 1)
    return _plain(_exact(left) % _exact(right))


def index(key: Any) -> Any:
    """A list may be indexed by any whole number, also by one that was calculated or sent as 2.0."""
    return int(key) if isinstance(key, float) and key.is_integer() else key


def path_part(value: Any) -> Any:
    return quote(value, safe="") if isinstance(value, str) else value


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "json_add": add,
    "json_subtract": subtract,
    "json_multiply": multiply,
    "json_divide": divide,
    "json_remainder": remainder,
    "json_index": index,
    "path_part": path_part,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(left: Any, right: Any, verb: str) -> None:
    if not (_is_number(left) and _is_number(right)):
        raise TypeError(f"cannot {verb} {_kind(left)} and {_kind(right)}")


def _calculate(left: Any, right: Any, operation: Callable[[Any, Any], Any], verb: str = "add") -> Any:
    _numbers(left, right, verb)
    if isinstance(left, int) and isinstance(right, int):
        return _plain(operation(left, right))
    return _plain(operation(_exact(left), _exact(right)))


def _exact(number: float) -> Decimal:
    # In decimals, so that 3 * 0.1 is 0.3: prices are rounded up, and 0.30000000000000004 would cost a unit more.
    return Decimal(repr(number))


def _plain(number: int | Decimal) -> float:
    if isinstance(number, Decimal):
        if not number.is_finite():
            raise OverflowError("not a finite number")
        number = int(number) if number == number.to_integral_value() and abs(number) < 2**53 else number
    if isinstance(number, int) and -(2**63) <= number < 2**63:
        return number
    result = float(number)
    if result in (float("inf"), float("-inf")):
        raise OverflowError("the number is too large")
    return result


def _kind(value: Any) -> str:
    kinds: dict[type, str] = {str: "a text", bool: "a boolean", list: "a list", dict: "a map", type(None): "null"}
    return "a number" if _is_number(value) else kinds.get(type(value), f"a {type(value).__name__}")
