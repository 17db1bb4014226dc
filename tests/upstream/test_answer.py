from datetime import UTC, datetime
from typing import Any

import pytest

from upstream.answer import read, retry_after_ms

NOW = datetime(2026, 1, 1, tzinfo=UTC)

BODIES: list[tuple[str, bytes, Any, bool]] = [
    ("application/json", b'{"a": 1}', {"a": 1}, True),
    ("application/problem+json; charset=utf-8", b"[1.5]", [1.5], True),
    ("application/json", b"", None, True),
    ("application/json", b"{oops", None, False),
    ("application/json", b"NaN", None, False),
    ("application/json", b"[1e999]", None, False),
    ("application/json", b"[" * 100_000, None, False),
    ("application/json", b"1" * 5_000, None, False),
    ("application/json", b"\xff", None, False),
    ("", b'{"a": 1}', {"a": 1}, True),
    ("", b"hello", "hello", True),
    ("text/plain", b"123", "123", True),
    ("text/plain", b'{"a": 1}', {"a": 1}, True),
    ("text/plain", b"{oops", "{oops", True),
    ("text/plain; charset=latin-1", b"\xfc", "\u00fc", True),
    ("text/plain", b"\xfc", None, False),
    ("text/html", b"<p>", "<p>", True),
    ("image/png", b"\x89PNG\xff", None, True),
    ("text/plain", b"a\x00b", "a\ufffdb", True),
    ("application/json", rb'{"a\u0000": ["\ud800", "\ud83d\ude00"]}', {"a\ufffd": ["?", "\U0001f600"]}, True),
]


@pytest.mark.parametrize(("kind", "raw", "body", "readable"), BODIES, ids=[f"{b[0]}-{b[1][:9]!r}" for b in BODIES])
def test_a_body_is_json_or_text_or_nothing(kind: str, raw: bytes, body: Any, readable: bool) -> None:
    answer = read(200, {"content-type": kind} if kind else {}, raw)
    assert (answer.body, answer.readable) == (body, readable)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("7", 7_000),
        (" 0 ", 0),
        ("1.5", 1_500),
        ("99999999999999999999999", 86_400_000),
        ("Thu, 01 Jan 2026 00:00:30 GMT", 30_000),
        ("Thu, 01 Jan 2026 00:00:30 -0000", 30_000),
        ("Wed, 31 Dec 2025 23:59:00 GMT", 0),
        ("Thu, 01 Jan 2099 00:00:00 GMT", 86_400_000),
        ("soon", None),
        ("-5", None),
        ("", None),
    ],
)
def test_retry_after(value: str, expected: int | None) -> None:
    assert retry_after_ms({"retry-after": value}, NOW) == expected
    assert retry_after_ms({}, NOW) is None


def test_a_date_is_read_by_the_clock_of_whoever_answers() -> None:
    """Ours may be hours off, which would rest a session for as long, or not at all."""
    headers = {"retry-after": "Thu, 01 Jan 2026 02:00:07 GMT", "date": "Thu, 01 Jan 2026 02:00:00 GMT"}
    assert retry_after_ms(headers, NOW) == 7_000
    assert retry_after_ms({**headers, "date": "yesterday"}, NOW) == 7_207_000


@pytest.mark.parametrize(
    "raw",
    [b'{"o": "\xed\xa0\x80"}', b'{"o": "\\ud800"}', '{"o": "\\u0000"}'.encode("utf-16")],
    ids=["bytes of half a pair", "escape of half a pair", "NUL in UTF-16"],
)
def test_what_no_database_stores_is_cleaned_however_it_was_written(raw: bytes) -> None:
    body = read(200, {"content-type": "application/json"}, raw).body
    text = body["o"] if body else ""
    assert "\x00" not in text
    text.encode("utf-8")


@pytest.mark.parametrize(
    "charset", ["punycode", "idna", "undefined", "unicode_escape", "rot13", "utf-7", "zlib", "nonsense"]
)
def test_a_charset_that_is_none_of_texts_is_not_decoded(charset: str) -> None:
    answer = read(200, {"content-type": f"text/plain; charset={charset}"}, b"+2AA-")
    assert (answer.body, answer.readable) == (None, False)


@pytest.mark.parametrize(
    "charset", ["utf-8", "UTF8", "latin-1", "windows-1252", "iso-8859-15", "shift_jis", "us-ascii"]
)
def test_charsets_of_texts_are_decoded(charset: str) -> None:
    assert read(200, {"content-type": f"text/plain; charset={charset}"}, b"abc").body == "abc"


def test_half_a_surrogate_pair_in_a_text_is_cleaned_too() -> None:
    body = read(200, {"content-type": "text/plain; charset=utf-16-le"}, "a".encode("utf-16-le") + b"\x00\x00").body
    assert body == "a\ufffd"


def test_a_retry_after_beyond_all_time_is_none() -> None:
    assert retry_after_ms({"retry-after": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"}) is None
