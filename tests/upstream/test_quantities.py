from typing import Any

import pytest

from upstream.quantities import Rate, duration_ms, duration_text, rate, rate_text, size_bytes, size_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("500ms", 500), ("2s", 2_000), ("1.5s", 1_500), ("5m", 300_000), ("1h", 3_600_000), ("1d", 86_400_000), ("0s", 0)],
)
def test_durations(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["90", "", "s", "-1s", "1 week", "1,5s", "0.5ms", 90, None])
def test_a_duration_without_unit_or_sense_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match=r"duration|whole"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("600/minute", Rate(600, 60_000)),
        ("100/second", Rate(100, 1_000)),
        ("90000/hour", Rate(90_000, 3_600_000)),
        ("10/5s", Rate(10, 5_000)),
    ],
)
def test_rates(text: str, expected: Rate) -> None:
    assert rate(text) == expected


@pytest.mark.parametrize("text", ["600", "0/minute", "1/0s", "a/minute", "1.5/second", 600])
def test_a_rate_that_is_none_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="rate"):
        rate(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("256kB", 256_000), ("256KiB", 262_144), ("1.5MB", 1_500_000), ("9B", 9)]
)
def test_sizes(text: str, expected: int) -> None:
    assert size_bytes(text) == expected


@pytest.mark.parametrize("text", ["256", "256kb", "", "1.5B", 256])
def test_a_size_without_unit_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match=r"size|whole"):
        size_bytes(text)


@pytest.mark.parametrize("text", ["0ms", "1500ms", "90s", "5m", "1h", "2d"])
def test_a_duration_is_written_in_the_largest_unit_that_fits(text: str) -> None:
    assert duration_text(duration_ms(text)) == text


@pytest.mark.parametrize("text", ["512B", "256kB", "1500kB", "10GB"])
def test_a_size_is_written_in_the_largest_unit_that_fits(text: str) -> None:
    assert size_text(size_bytes(text)) == text


@pytest.mark.parametrize("text", ["600/minute", "2/3s", "10/5s", "3/day"])
def test_a_rate_is_written_as_it_is_read(text: str) -> None:
    assert rate_text(*rate(text)) == text
