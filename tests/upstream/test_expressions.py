"""Expressions: numbers as in JSON, names by place, errors that say what is wrong."""

import json
from typing import Any

import pytest

from upstream.expressions import (
    PRICE_NAMES,
    RESPONSE_NAMES,
    SUBMIT_NAMES,
    ExpressionError,
    Scope,
    compile_expression,
    compile_path,
)

PAYLOAD = {
    "seconds": 3,
    "half": 2.5,
    "whole": 2.0,
    "tenth": 0.1,
    "big": 2**60,
    "list": [10, 20, 30],
    "text": "a b",
    "deep": {"list": [{"n": 1}]},
    "no": None,
}

NUMBERS: list[tuple[str, Any]] = [
    ("10 + 2 * payload.seconds", 16),
    ("10 + 2 * payload.half", 15),
    ("1 + payload.half", 3.5),
    ("5 / 2", 2.5),
    ("6 / 2", 3),
    ("payload.seconds / 2", 1.5),
    ("3 * payload.tenth", 0.3),
    ("0.1 + 0.2", 0.3),
    ("1 - payload.half", -1.5),
    ("-payload.half + 1", -1.5),
    ("-2 * -payload.seconds", 6),
    ("7 % 2", 1),
    ("-7 % 2", -1),
    ("7.5 % 2", 1.5),
    ("2 + 3 * 4 - 1", 13),
    ("(2 + 3) * 4", 20),
    ("20 - 5 - 5", 10),
    ("100 / 10 / 4", 2.5),
    ("2 * 7 % 4", 2),
    ("payload.big", 2**60),
    ("payload.big + 1", 2**60 + 1),
    ("payload.big / 2", 2**59),
    ("payload.whole + 1", 3),
    ("payload.whole * payload.seconds", 6),
    ("size(payload.list) * 2.5", 7.5),
    ("payload.list.size() / 2", 1.5),
    ("payload.list[0]", 10),
    ("payload.list[size(payload.list) - 1]", 30),
    ("payload.list[payload.whole]", 30),
    ("payload.list[4 / 2] + 0.5", 30.5),
    ("payload['seconds'] + 1", 4),
    ("payload['sec' + 'onds'] + 1", 4),
    ("payload.deep.list[0].n + 0.5", 1.5),
    ("payload.list.map(x, x * 1.5)", [15, 30, 45]),
    ("payload.list.filter(x, x / 20 >= 1).size()", 2),
    ("payload.list.exists(x, x == 20.0)", True),
    ("payload.seconds > 2.5 ? 1 + 1 : 2.5 + 0.25", 2),
    ("payload.seconds > 2.5 && payload.half < 3", True),
    ("2 == 2.0", True),
    ("payload.seconds in [1, 2, 3.0]", True),
    ("string(payload.whole)", "2"),
    ("string(5 / 2)", "2.5"),
    ("string(10 / 5)", "2"),
    ("'n=' + string(payload.seconds * 2.0)", "n=6"),
    ("{'n': payload.seconds / 2, 'm': 4 / 2}", {"n": 1.5, "m": 2}),
    ("[1 + 1, 2.5]", [2, 2.5]),
    ("max(1, payload.half)", 2.5),
    ("min(payload.seconds, 2.5) * 2", 5),
    ("math.ceil(payload.half) + 1", 4),
    ("double(3)", 3),
    ("int(2.7) + 0.5", 2.5),
    ("0x10 + 1", 17),
    ("1e3 + 1", 1001),
    ("'a + 1' + \"b\" + r'\\d' + '''c'd'''", "a + 1b\\dc'd"),
    ("'it\\'s' + '!'", "it's!"),
    ("1 + 1 // and no more", 2),
    ("has(payload.none) ? 1 : 2 + 0.5", 2.5),
    ("!has(payload.none) && size('abc') == 3", True),
    ("[1, 2] + [3]", [1, 2, 3]),
    ("payload.no == null", True),
    ("true || payload.none + 1 > 2", True),
    ("base64.encode(bytes('a:b'))", "YTpi"),
    ("payload.text.contains(' ') && payload.text.startsWith('a')", True),
]


@pytest.mark.parametrize(("source", "expected"), NUMBERS, ids=[source for source, _ in NUMBERS])
def test_numbers_behave_as_in_json(source: str, expected: Any) -> None:
    value = compile_expression(source, SUBMIT_NAMES).evaluate({"payload": PAYLOAD})
    assert value == expected
    assert json.dumps(value, sort_keys=True) == json.dumps(expected, sort_keys=True)  # 2, not 2.0; true, not 1


def test_what_is_passed_through_stays_as_it_came() -> None:
    payload = {"n": 2**100, "f": 2.0}
    assert compile_expression("payload", SUBMIT_NAMES).evaluate({"payload": payload}) is payload
    assert compile_expression("payload.n", SUBMIT_NAMES).evaluate({"payload": payload}) == 2**100


FAILING = [
    ("payload.none", "there is no key 'none'"),
    ("payload.none.more", "there is no key 'none'"),
    ("payload.text.more", "not a map"),
    ("payload.none + 1", "there is no key 'none'"),
    ("1 / 0", "division by zero"),
    ("payload.half / 0", "division by zero"),
    ("1 % 0", "division by zero"),
    ("payload.text + 1", "cannot add a text and a number"),
    ("1 + null", "cannot add a number and null"),
    ("2 * payload.text", "cannot multiply a number and a text"),
    ("payload.list[7]", "out of bounds"),
    ("payload.list[0.5]", "got 'double'"),
    ("1e300 * 1e300", "too large"),
    ("payload.seconds ? 1 : 2", "does not fit"),
    ("payload.text[0]", "does not fit"),
    ("int(payload.text)", "^string parse error"),
    ("duration('5s')", "JSON cannot carry"),
    ("bytes('a')", "JSON cannot carry"),
]


@pytest.mark.parametrize(("source", "message"), FAILING, ids=[source for source, _ in FAILING])
def test_an_evaluation_that_fails_says_why(source: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        compile_expression(source, SUBMIT_NAMES).evaluate({"payload": PAYLOAD})


WRONG = [
    ("1 +", "line 1, column 4"),
    ("(", "line 1"),
    ("", "line 1, column 1"),
    ("payloda.seconds", "there is no 'payloda' here; known are: job, payload, tenant"),
    ("account.credential", "there is no 'account'"),
    ("payload.seconds + x", "there is no 'x'"),
    ("ceiling(payload.seconds)", "there is no function 'ceiling'"),
    ("'a'.shout()", "there is no function 'shout'"),
    ("(" * 50 + "1" + ")" * 50, "nested deeper"),
    ("1 + " * 1_000 + "1", "longer than"),
]


@pytest.mark.parametrize(("source", "message"), WRONG, ids=[source[:30] for source, _ in WRONG])
def test_a_wrong_expression_is_refused_when_compiled(source: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        compile_expression(source, PRICE_NAMES)


def test_an_unquoted_value_is_refused_with_advice() -> None:
    with pytest.raises(ExpressionError, match="quote it"):
        compile_expression(20, PRICE_NAMES)  # type: ignore[arg-type]


PATHS = [
    ("'/tasks/' + reference", "/tasks/a%2Fb%20%3F%25"),
    ("reference", "a%2Fb%20%3F%25"),
    ("'/x?key=' + reference + '&n=' + string(payload.n)", "/x?key=a%2Fb%20%3F%25&n=2"),
    ("payload.kind == 'a/b' ? '/one/' + payload.kind : '/two/x'", "/one/a%2Fb"),
    ("payload.kind != 'a/b' ? '/one/' + payload.kind : '/two/x'", "/two/x"),
    ("'/' + (payload.kind == 'a/b' ? 'v1/x' : reference)", "/v1/x"),
    ("{'a/b': '/v1/x', 'c': reference}[payload.kind] + '/run'", "/v1/x/run"),
    ("{'a/b': '/' + reference}[payload.kind]", "/a%2Fb%20%3F%25"),
    ("'/' + [payload.kind, 'x/y'][1]", "/x/y"),
    ("'/' + ['x/y', payload.kind][1]", "/a%2Fb"),
    ("'/' + payload.kind.replace('/', '//')", "/a%2F%2Fb"),
    ("'/' + 'ü/' + payload.name", "/ü/%C3%BC"),
]


@pytest.mark.parametrize(("source", "expected"), PATHS, ids=[source for source, _ in PATHS])
def test_values_put_into_a_path_are_encoded_and_literals_are_not(source: str, expected: str) -> None:
    names = SUBMIT_NAMES | {"reference"}
    values = {"reference": "a/b ?%", "payload": {"kind": "a/b", "n": 2, "name": "ü"}}
    assert compile_path(source, names).evaluate(values) == expected


def test_a_scope_sees_a_value_that_was_set_later() -> None:
    expression = compile_expression("response.status == 200", RESPONSE_NAMES)
    scope = Scope({"payload": {}})
    scope.set("response", {"status": 200})
    assert expression.evaluate(scope) is True
    scope.set("response", {"status": 500})
    assert expression.evaluate(scope) is False


def test_a_name_that_is_known_but_not_given_is_an_error() -> None:
    with pytest.raises(ExpressionError):
        compile_expression("response.status == 200", RESPONSE_NAMES).evaluate({"payload": {}})
