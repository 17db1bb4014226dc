"""A price becomes an integer once, rounded up; nothing that is not a price does."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from credits.errors import PriceError
from credits.pricing import decimal_text, to_micro


@pytest.mark.parametrize(
    ("value", "micro"),
    [
        (0, 0),
        (12, 12_000_000),
        (2.5, 2_500_000),
        (0.1, 100_000),
        (0.1 * 3, 300_000),  # 0.30000000000000004 as a double
        (1.1 * 1.1, 1_210_000),
        (1 / 3, 333_334),
        (0.0000001, 1),
        (1e-300, 1),
        (-0.0, 0),
        (Decimal("0.0000011"), 2),
        (Decimal("7.000000"), 7_000_000),
        (1e9, 10**15),
        (10**9, 10**15),
    ],
)
def test_a_price_is_rounded_up_at_six_places(value: object, micro: int) -> None:
    assert to_micro(value) == micro


@pytest.mark.parametrize(
    "value",
    [
        math.nan, math.inf, -math.inf, -1, -0.01, True, False, "12", b"12", None, [1], 1e9 + 1, 10**400, 1e300,
        Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("-0.5"),
    ],
)  # fmt: skip
def test_what_is_not_a_price_is_refused(value: object) -> None:
    with pytest.raises(PriceError):
        to_micro(value)


@given(st.decimals(min_value=0, max_value=10**9, allow_nan=False, allow_infinity=False, places=9))
def test_rounding_up_adds_less_than_one_micro_credit(value: Decimal) -> None:
    assert 0 <= to_micro(value) - value * 1_000_000 < 1


@pytest.mark.parametrize(
    ("micro", "text"),
    [(12_000_000, "12.000000"), (0, "0.000000"), (1, "0.000001"), (-500_000, "-0.500000"), (10**15, f"{10**9}.000000")],
)
def test_micro_credits_are_written_with_six_places(micro: int, text: str) -> None:
    assert decimal_text(micro) == text


@given(st.integers(0, 10**15))
def test_text_and_micro_credits_agree(micro: int) -> None:
    assert to_micro(Decimal(decimal_text(micro))) == micro
