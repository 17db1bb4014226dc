"""What expressions take from an answer: a truth, a quantity, a reference. One that fails has not said no."""

from dataclasses import dataclass
from typing import Any, Final

from upstream.expressions import Expression, ExpressionError, Scope

MAX_UNITS: Final = 1e15
MAX_REFERENCE_LENGTH: Final = 500  # it is indexed
MAX_SOURCE_LENGTH: Final = 80  # of an expression in what is said of it


class Reader:
    """Evaluates over an answer and keeps the first problem."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.problem = ""

    def value(self, expression: Expression) -> Any:
        try:
            return expression.evaluate(self.scope)
        except ExpressionError as error:
            self._wrong(expression, str(error))
            return None

    def holds(self, expression: Expression | None) -> bool:
        """Whether it is declared and true."""
        if expression is None:
            return False
        value = self.value(expression)
        if not isinstance(value, bool):
            self._wrong(expression, "neither true nor false")
        return value is True

    def quantity(self, expression: Expression) -> float | None:
        value = self.value(expression)
        if value is None:
            self._wrong(expression, "there is none")
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_UNITS:
            self._wrong(expression, "what was used is a number from 0 to 1e15")
            return None
        return value

    def _wrong(self, expression: Expression, problem: str) -> None:
        self.problem = self.problem or f"{expression.source[:MAX_SOURCE_LENGTH]}: {problem}"


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer says was used, and why it could not be believed."""

    units: float | None = None
    cost: float | None = None
    problem: str = ""


def usage(units: Expression | None, cost: Expression | None, scope: Scope) -> Usage:
    """By a reader of its own: usage that makes no sense does not undo a success that was verified."""
    reader = Reader(scope)
    used = None if units is None else reader.quantity(units)
    taken = None if cost is None else reader.quantity(cost)
    return Usage(used, taken, reader.problem)


def reference(expression: Expression | None, scope: Scope) -> str:
    """What the upstream calls the work: a text or a whole number. Empty where it is declared nowhere, or says neither."""
    if expression is None:
        return ""
    value = Reader(scope).value(expression)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        value = str(value)
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_REFERENCE_LENGTH:
        return ""
    # What had to be cleaned to be stored is not the name any more.
    return value if value.isprintable() and "\ufffd" not in value else ""


def progress(expression: Expression | None, scope: Scope) -> float | None:
    """From 0 to 1; anything else is none, and no mistake: it is only shown."""
    value = None if expression is None else Reader(scope).value(expression)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return float(value)
