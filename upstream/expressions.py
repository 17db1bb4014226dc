"""Expressions of the configuration, in CEL: prices, mappings, conditions. Numbers behave as in JSON (arithmetic.py).

A `Scope` holds the values one call or job is evaluated with, so that several expressions share their conversion.
"""

import logging
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, cast

import cel
from cel.stdlib import EXTENSIONS

from upstream import arithmetic, rewriting

# Which names an expression may use, by the place it stands in.
SUBMIT_NAMES: Final = frozenset({"payload", "job", "tenant", "account", "dispatch_key", "callback_url"})
RESPONSE_NAMES: Final = SUBMIT_NAMES | {"response"}
FOLLOW_NAMES: Final = SUBMIT_NAMES | {"reference"}  # requests of poll, cancel and find
FOLLOW_RESPONSE_NAMES: Final = FOLLOW_NAMES | {"response"}
PROBE_NAMES: Final = frozenset({"account", "response"})
REQUIRES_NAMES: Final = frozenset({"payload"})
PRICE_NAMES: Final = frozenset({"payload", "job", "tenant"})  # also for weights and the cost of weighed rates
TENANT_PRICE_NAMES: Final = PRICE_NAMES | {"price"}
SETTLE_NAMES: Final = PRICE_NAMES | {"outcome", "held", "price"}

# The library logs each error of a function; here they are raised, and told to whoever wrote the expression.
logging.getLogger("cel").setLevel(logging.CRITICAL)


class ExpressionError(ValueError):
    """What is wrong with an expression, or with what it was given. The message is for whoever wrote it."""


class Scope:
    """Values by name. Each is converted for CEL at most once, when the first expression needs it."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)
        self._context = cel.Context()
        self._bound: set[str] = set()

    def set(self, name: str, value: Any) -> None:
        self.values[name] = value
        self._bound.discard(name)

    def context(self, names: frozenset[str], functions: frozenset[str]) -> cel.Context:
        for name in (names | functions) - self._bound:
            if name in functions:
                self._context.add_function(name, _FUNCTIONS[name])
            elif name in self.values:
                self._context.add_variable(name, self.values[name])
            else:
                continue
            self._bound.add(name)
        return self._context


class Expression:
    """A compiled expression; immutable, shared between threads."""

    def __init__(self, source: str, program: cel.Program, names: frozenset[str], functions: frozenset[str]) -> None:
        self.source = source
        self._program = program
        self._names = names
        self._functions = functions
        # A plain path such as `response.body` needs no conversion: it hands on the very object, integers of any size.
        steps = program.source.strip().split(".")
        self._steps = steps if _PLAIN_PATH.fullmatch(program.source.strip()) and steps[0] in names else None

    def evaluate(self, context: Mapping[str, Any] | Scope) -> Any:
        """The value, in terms of JSON. Raises ExpressionError: a missing key, a division by zero, wrong types."""
        scope = context if isinstance(context, Scope) else Scope(context)
        try:
            if self._steps is not None:
                return _walk(scope.values, self._steps)
            return _as_json(self._program.execute(scope.context(self._names, self._functions)))
        except Exception as error:  # noqa: BLE001 - many kinds; each means: no value
            raise ExpressionError(_explain(error)) from None

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"


def compile_expression(source: str, allowed: frozenset[str]) -> Expression:
    """Raises ExpressionError: syntax, a name or function that does not exist here."""
    return _compile(_text(source), allowed, in_path=False)


def compile_path(source: str, allowed: frozenset[str]) -> Expression:
    """As compile_expression, for a path: texts that come from names are percent-encoded, literals stand as written."""
    return _compile(_text(source), allowed, in_path=True)


def _text(source: object) -> str:
    if not isinstance(source, str):
        raise ExpressionError(f'an expression is a text, such as "payload"; this is {type(source).__name__}: quote it')
    return source


@lru_cache(maxsize=4096)
def _compile(source: str, allowed: frozenset[str], in_path: bool) -> Expression:
    try:
        rewriting.check_size(source)
        cel.compile(source)  # first as written, so that a syntax error names the writer's own columns
        rewritten = rewriting.rewrite(source)
        program = cel.compile(rewritten.part if in_path else rewritten.text)
    except Exception as error:  # noqa: BLE001 - as in evaluate
        raise ExpressionError(_explain(error)) from None
    used = frozenset(program.functions())
    named = {name for name in used if name.isidentifier()}
    if unknown := sorted(named - _NATIVE - {name.rpartition(".")[2] for name in _FUNCTIONS}):
        raise ExpressionError(f"there is no function {unknown[0]!r}")
    functions = frozenset(name for name in _FUNCTIONS if name.rpartition(".")[2] in used - _NATIVE)
    spaces = {name.partition(".")[0] for name in functions if "." in name}
    names = frozenset(program.variables()) - rewritten.bound - spaces
    if unknown := sorted(names - allowed):
        raise ExpressionError(f"there is no {unknown[0]!r} here; known are: {', '.join(sorted(allowed))}")
    return Expression(source, program, names, functions)


_PLAIN_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_FUNCTIONS = arithmetic.FUNCTIONS | {
    name: function
    for library in ("core", "strings", "math", "encoders")
    for name, function in EXTENSIONS[library].items()
}
_NATIVE = frozenset(
    {"size", "contains", "startsWith", "endsWith", "matches", "string", "bytes", "double", "int", "uint", "dyn"}
    | {"timestamp", "duration", "type", "has", "map", "filter", "all", "exists", "exists_one"}
    | {"getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"}
    | {"getHours", "getMinutes", "getSeconds", "getMilliseconds"}
)


def _walk(value: Any, steps: list[str]) -> Any:
    for step in steps:
        if not isinstance(value, Mapping):
            raise TypeError(f"cannot read {step!r} of something that is not a map")
        value = value[step]
    return value


def _as_json(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise OverflowError("not a finite number")
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"the result is a {type(value).__name__}, which JSON cannot carry; use string(…)")


_FUNCTION_FAILED = re.compile(
    r"(?:Python function call failed: (?:\w+: )?|^Function '\w+' error: )(?!Python function)(.*)", re.S
)
_SYNTAX = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?([^\n]*)")


def _explain(error: BaseException) -> str:
    message = str(error).removesuffix(" Check function arguments and their types.").rstrip(".")
    if isinstance(error, KeyError):
        return f"there is no key {cast(object, error.args[0] if error.args else '')!r}"
    if found := _SYNTAX.search(message):
        return f"line {found[1]}, column {found[2]}: {found[3]}"
    if found := _FUNCTION_FAILED.search(message):
        return found[1]
    if message.startswith("No such overload"):
        return "an operation does not fit the types it is given"
    return re.split(r"[.:] CEL does not", message, maxsplit=1)[0] or type(error).__name__
