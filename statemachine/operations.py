"""What an operator may do to rows in the admin, and what is told of a row beside its fields.

An operation goes through verbs, shows its effect before it is done and is recorded under who did it. The layer that knows
the verbs offers it to the admin of a model further down; `statemachine.operating` is the page of all of them.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django import forms
from django.db.models import Model
from django.db.models.expressions import BaseExpression

LONG_WORD, LONG_TEXT = 30, 60  # characters: of an id, of a sentence
MOST_ROWS = 100  # of one operation: a larger set is done in several


@dataclass(frozen=True)
class Effect:
    """What an operation would do to one row, in words; `refused` says why it would do nothing."""

    row: Model
    now: str
    then: str
    refused: str = ""


class Refused(Exception):
    """The verb did not do it; the message says why."""


class Operation:
    """One thing an operator may do. `form` asks for what it needs; its cleaned data come as `data`.

    `data` has more members: `actor` (as in the history), `token`, the same when one page is sent twice, and when it is
    done `mark`, that of the row.
    `permission` is what an operator needs, as `app.codename`; by default to change rows of the model.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    says: ClassVar[str]
    icon: ClassVar[str]
    form: ClassVar[type[forms.Form]] = forms.Form
    permission: ClassVar[str] = ""
    shows_once: ClassVar[bool] = False  # what it returns is a secret: shown on a page of its own, kept nowhere
    record_is_part: ClassVar[bool] = False  # done and recorded in one transaction: what cannot be recorded is not done

    def concerns(self, row: Any) -> bool:
        """Whether the button is worth showing at this row."""
        return True

    def mark(self, row: Any) -> str:
        """What must still be so when the page is sent: a row of which it has changed is left alone."""
        return ""

    def also_at(self, row: Any, data: Mapping[str, Any]) -> Sequence[Model]:
        """Rows beside `row` at which the record is kept too; asked after it was done."""
        return ()

    def effects(self, rows: Sequence[Any], data: Mapping[str, Any]) -> list[Effect]:
        """What would happen to each row."""
        raise NotImplementedError

    def perform(self, row: Any, data: Mapping[str, Any]) -> str:
        """Does it, in a transaction of its own; returns what was done, in words. Raises Refused."""
        raise NotImplementedError


@dataclass(frozen=True)
class Link:
    """A cell that leads somewhere."""

    text: str
    address: str


@dataclass(frozen=True)
class Section:
    """A small table told of a row beside its fields; `cells` are texts, times or links."""

    title: str
    columns: Sequence[str]
    cells: Sequence[Sequence[Any]]
    empty: str = "None."
    links: Sequence[Link] = ()

    def rows(self) -> list[list[tuple[str, Any, str]]]:
        """Each row as (column, cell, its class): what is long may be broken, what is short stays whole."""
        return [
            [(name, cell, _class(cell)) for name, cell in zip(self.columns, row, strict=True)] for row in self.cells
        ]


@dataclass(frozen=True)
class Column:
    """A column more in the list of a model, for who may see rows of `of`: `value` is read with the rows as their
    attribute `name`, `text` says it.
    """

    name: str
    title: str
    of: type[Model]
    value: BaseExpression
    text: Callable[[Any], str]


_operations: dict[type[Model], list[Operation]] = defaultdict(list)
Telling = Callable[[Any], Section]
_columns: dict[type[Model], list[Column]] = defaultdict(list)
_sections: dict[type[Model], list[tuple[Telling, type[Model]]]] = defaultdict(list)


def offer(model: type[Model], *operations: Operation) -> None:
    """Makes the operations available in the admin of `model`."""
    _operations[model] += operations


def tell(model: type[Model], *sections: tuple[Telling, type[Model]]) -> None:
    """Shows the sections below the fields of a row of `model`, each to whom may see rows of the model named with it."""
    _sections[model] += sections


def show(model: type[Model], *columns: Column) -> None:
    """Adds the columns to the list of `model`."""
    _columns[model] += columns


def columns_of(model: type[Model]) -> Sequence[Column]:
    """What is shown in the list of `model` beside its own columns, in the order of adding."""
    return _columns[model]


def operations_of(model: type[Model]) -> Sequence[Operation]:
    """What is offered for `model`, in the order of offering."""
    return _operations[model]


def sections_of(row: Model, may_see: Callable[[type[Model]], bool]) -> list[Section]:
    """What is told of `row` to one who may see the models that `may_see` says."""
    return [section(row) for section, model in _sections[type(row)] if may_see(model)]


def _class(cell: Any) -> str:
    text = cell.text if isinstance(cell, Link) else str(cell)
    if any(len(word) > LONG_WORD for word in text.split()):
        return "berth-breaks"
    if len(text.split()) == 1:
        return "berth-word"
    return "berth-long" if len(text) > LONG_TEXT else ""
