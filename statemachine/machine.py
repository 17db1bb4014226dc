"""A state machine as data, and the one way to move rows along it: in sets, guarded, recorded and announced.

`take` locks the rows in id order, checks the state each is in, writes, and announces after commit; whoever finds a row
elsewhere was second and changes nothing. The triggers of `statemachine.triggers`, made from the same data, refuse an
illegal move whoever makes it and write the history.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import connection, models, transaction
from django.dispatch import Signal

from statemachine.actors import current_actor
from statemachine.sql import fetch


@dataclass(frozen=True)
class State:
    """A state a row can be in. Terminal states are left by an explicit verb only (replay)."""

    name: str
    comment: str
    terminal: bool = False


@dataclass(frozen=True)
class Arrow:
    """A legal move: the verb that takes it, from where, to where, and what causes it."""

    verb: str
    sources: tuple[str, ...]
    target: str
    cause: str


@dataclass(frozen=True)
class Moved:
    """A row that moved: its new state and the columns its machine carries along for the receivers."""

    id: Any
    state: str
    row: Mapping[str, Any]


class WrongState(Exception):
    """A row was asked to take an arrow that does not begin where the row stands."""


class Machine:
    """States and arrows of one table. `model` and `announce` are bound once, when the model exists."""

    def __init__(self, name: str, first: str, states: Sequence[State], arrows: Sequence[Arrow]) -> None:
        self.name = name
        self.first = first
        self.states = {state.name: state for state in states}
        self.arrows = {arrow.verb: arrow for arrow in arrows}
        self.terminal = tuple(state.name for state in states if state.terminal)
        self.moves = sorted({(source, arrow.target) for arrow in arrows for source in arrow.sources})
        named = {first, *(name for move in self.moves for name in move)}
        if unknown := named - set(self.states):
            raise ValueError(f"machine {name} moves through undeclared states: {sorted(unknown)}")

    def bind(self, model: type[models.Model], announce: Signal, carry: Sequence[str]) -> None:
        """Names the table, the signal sent after commit, and the columns sent with each moved row."""
        self.model, self.announced, self.carry = model, announce, tuple(carry)

    def guard(self, verb: str) -> str:
        """SQL: the states `verb` may begin in, as `('pending', 'assigned')`."""
        return "(" + ", ".join(f"'{source}'" for source in self.arrows[verb].sources) + ")"

    def target(self, verb: str) -> str:
        """SQL: the state `verb` ends in, as `'assigned'`."""
        return f"'{self.arrows[verb].target}'"

    def take(
        self,
        verb: str,
        rows: Iterable[Mapping[str, Any]],
        *,
        match: Sequence[str] = (),
        columns: Mapping[str, str] | None = None,
        where: str = "",
        cause: str = "",
    ) -> list[Moved]:
        """Takes `verb` for every row that still stands where the arrow begins; returns those that moved.

        Each of `rows` has `id` and values for other columns: those named in `match` must equal what the row has (a
        fence), the others are written. `columns` are the same for all and `where` a further guard, as SQL over the
        row `t`. Locks the rows in id order; a second caller waits, finds them elsewhere and moves none.
        """
        given = list(rows)
        if not given:
            return []
        statement = self._statement(verb, tuple(given[0]), match, columns or {}, where)
        return self.announce(verb, fetch(statement, [json.dumps(given, default=str), cause or verb, current_actor()]))

    def announce(self, verb: str, rows: Sequence[Mapping[str, Any]]) -> list[Moved]:
        """Sends the signal after commit for rows that took `verb`; returns them as `Moved`."""
        moved = [Moved(row["id"], self.arrows[verb].target, row) for row in rows]
        if moved:
            send = partial(self.announced.send_robust, sender=self.model, verb=verb, moved=moved)
            transaction.on_commit(send, robust=True)
        return moved

    def _statement(
        self, verb: str, given: Sequence[str], match: Sequence[str], columns: Mapping[str, str], where: str
    ) -> str:
        table = self.model._meta.db_table
        fields = {field.column: field for field in self.model._meta.concrete_fields}
        shape = ", ".join(f'"{name}" {fields[name].rel_db_type(connection)}' for name in given)
        equal = "".join(f' AND t."{name}" = v."{name}"' for name in match)
        further = f" AND {where}" if where else ""
        written = [f'"{name}" = v."{name}"' for name in given if name != "id" and name not in match]
        written += [f'"{name}" = {expression}' for name, expression in columns.items()]
        carried = ", ".join(f't."{name}"' for name in ("id", *self.carry))
        return f"""
            WITH v AS (SELECT * FROM jsonb_to_recordset(%s::jsonb) AS v({shape})),
            told AS (SELECT set_config('berth.cause', %s, true), set_config('berth.actor', %s, true)),
            locked AS (
                SELECT t.id FROM {table} t JOIN v ON v.id = t.id
                WHERE t.state IN {self.guard(verb)}{equal}{further}
                ORDER BY t.id FOR NO KEY UPDATE OF t)
            UPDATE {table} t SET {", ".join([f"state = {self.target(verb)}", "version = t.version + 1", *written])}
            FROM locked, v, told WHERE t.id = locked.id AND v.id = locked.id
            RETURNING {carried}"""
