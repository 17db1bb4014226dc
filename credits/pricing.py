"""From what a price expression returned to the integer that is booked, and back to text."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from credits.errors import PriceError

__all__ = ["MAX_CREDITS", "MICRO", "PriceError", "balance_to_micro", "decimal_text", "short_text", "to_micro"]

MICRO = 1_000_000  # micro-credits in one credit
MAX_CREDITS = 1_000_000_000  # of one price; keeps every sum far inside a bigint

# Digits a double carries faithfully. 0.1 * 3 is 0.30000000000000004 as a double: rounding that up would
# charge a micro-credit for the noise of binary arithmetic.
FLOAT_DIGITS = 15


def to_micro(value: object) -> int:
    """Credits (int, float or Decimal) as micro-credits, rounded up, once, at six places.

    Raises PriceError for anything else, for NaN and infinities, below zero, and above MAX_CREDITS.
    """
    exact = _exact("a price", value)
    if exact < 0:
        raise PriceError(f"a price cannot be negative: {value}")
    if exact > MAX_CREDITS:
        raise PriceError(f"a price cannot be above {MAX_CREDITS} credits: {value}")
    return int(exact.scaleb(6).to_integral_value(ROUND_CEILING))


def balance_to_micro(value: object) -> int:
    """What a provider says is left, as micro-credits, rounded down: never more than there is. It may be below zero.

    Raises PriceError for anything but a finite number, and beyond MAX_CREDITS.
    """
    exact = _exact("a balance", value)
    if abs(exact) > MAX_CREDITS:
        raise PriceError(f"a balance cannot be beyond {MAX_CREDITS} credits: {value}")
    return int(exact.scaleb(6).to_integral_value(ROUND_FLOOR))


def decimal_text(micro: int) -> str:
    """Micro-credits as a decimal text with six places: 12_000_000 is "12.000000"."""
    whole, rest = divmod(abs(micro), MICRO)
    return f"{'-' if micro < 0 else ''}{whole}.{rest:06d}"


def short_text(micro: int) -> str:
    """Micro-credits as a person reads them: 2_500_000 is "2.5", 1_000_000_000 is "1,000"."""
    return f"{(Decimal(micro) / MICRO).normalize():,f}"


def _exact(what: str, value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise PriceError(f"{what} must be a number, not {type(value).__name__}")
    exact = Decimal(f"{value:.{FLOAT_DIGITS}g}") if isinstance(value, float) else Decimal(value)
    if not exact.is_finite():
        raise PriceError(f"{what} must be finite, not {value}")
    return exact
