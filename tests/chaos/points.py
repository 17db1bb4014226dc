"""Every crash point of the product, found by reading its source: where it stands and in which function."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = (
    "broker_project",
    "credits",
    "files",
    "jobs",
    "pool",
    "statemachine",
    "tenants",
    "upstream",
    "webhooks",
)


@dataclass(frozen=True)
class Point:
    """`name` is "verb.gap"; empty where a call gives no literal, which a test refuses."""

    name: str
    file: str
    line: int
    function: str


def points() -> list[Point]:
    """In the order of files and lines."""
    files = sorted(file for package in PACKAGES for file in (PROJECT / package).rglob("*.py"))
    return [point for file in files for point in _of(file)]


def names() -> list[str]:
    return [point.name for point in points()]


def _of(file: Path) -> Iterator[Point]:
    text = file.read_text()
    if "crashpoint(" not in text or file.name == "crashpoints.py":
        return
    where = str(file.relative_to(PROJECT))
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in _calls(function):
                name = call.args[0] if call.args else None
                known = name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""
                yield Point(known, where, call.lineno, function.name)


def _calls(function: ast.AST) -> Iterator[ast.Call]:
    """Those of this function, not of functions within it."""
    for child in ast.iter_child_nodes(function):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == "crashpoint":
            yield child
        yield from _calls(child)


if __name__ == "__main__":
    for each in points():
        sys.stdout.write(f"{each.name:24} {each.file}:{each.line} {each.function}\n")
