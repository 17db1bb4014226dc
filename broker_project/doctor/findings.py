"""What a check finds, and what it is: a question with a name, and the checks without which it makes no sense."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

OK: Final = "ok"
WARNING: Final = "warning"
ERROR: Final = "error"
SKIPPED: Final = "skipped"


@dataclass(frozen=True)
class Finding:
    """How it is, in a sentence; what to do, where there is something to do."""

    level: str
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Check:
    """`needs` names checks that must have found no error; else this one is skipped."""

    name: str
    look: Callable[[], Finding]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """The finding of a check and how long it took, in milliseconds."""

    name: str
    finding: Finding
    ms: float


def ok(found: str) -> Finding:
    return Finding(OK, found)


def warning(found: str, advice: str) -> Finding:
    return Finding(WARNING, found, advice)


def error(found: str, advice: str) -> Finding:
    return Finding(ERROR, found, advice)


def some(names: list[str], most: int = 5) -> str:
    """The first of many names."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def all_of(sentences: list[str]) -> str:
    """What to do about several causes, each said once, in their order."""
    return "; ".join(dict.fromkeys(sentences))
