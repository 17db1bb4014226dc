"""The database's side of a machine: triggers that refuse illegal moves and write the history."""

import pgtrigger

from statemachine.machine import Machine

_WRITE = """
    INSERT INTO {history} (subject_id, from_state, to_state, cause, actor, at)
    SELECT {source},
           COALESCE(NULLIF(current_setting('berth.cause', true), ''), 'sql'),
           COALESCE(NULLIF(current_setting('berth.actor', true), ''), session_user),
           clock_timestamp()
    {rows};
    RETURN NULL;"""


def guard_triggers(machine: Machine, history_table: str) -> list[pgtrigger.Trigger]:
    """The four triggers of a machine's table: first state, legal moves, and the history of both.

    History is written per statement from transition tables, so that a set of a hundred rows costs one insert.
    """
    return [
        pgtrigger.Protect(
            name="first_state",
            operation=pgtrigger.Insert,
            condition=pgtrigger.Q(new__state__df=machine.first),
        ),
        pgtrigger.FSM(name="legal_moves", field="state", transitions=list(machine.moves)),
        pgtrigger.Trigger(
            name="record_first_state",
            level=pgtrigger.Statement,
            when=pgtrigger.After,
            operation=pgtrigger.Insert,
            referencing=pgtrigger.Referencing(new="new_rows"),
            func=_WRITE.format(history=history_table, source="n.id, '', n.state", rows="FROM new_rows n"),
        ),
        pgtrigger.Trigger(
            name="record_moves",
            level=pgtrigger.Statement,
            when=pgtrigger.After,
            operation=pgtrigger.Update,
            referencing=pgtrigger.Referencing(old="old_rows", new="new_rows"),
            func=_WRITE.format(
                history=history_table,
                source="n.id, o.state, n.state",
                rows="FROM new_rows n JOIN old_rows o ON o.id = n.id WHERE o.state <> n.state",
            ),
        ),
    ]


def history_triggers() -> list[pgtrigger.Trigger]:
    """A history is append-only: no row of it changes or goes, nor do all at once."""
    return [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete), no_truncate()]


def no_truncate() -> pgtrigger.Trigger:
    """Refuses TRUNCATE, which no row-level trigger sees."""
    return pgtrigger.Trigger(
        name="no_truncate",
        level=pgtrigger.Statement,
        when=pgtrigger.Before,
        operation=pgtrigger.Truncate,
        func="RAISE EXCEPTION 'pgtrigger: Cannot truncate table %', TG_TABLE_NAME;",
    )
