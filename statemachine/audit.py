"""What must hold of the history of any machine, as SQL for the audit."""

from statemachine.machine import Machine


def history_rules(machine: Machine, table: str, history: str) -> dict[str, str]:
    """P8, "only legal moves, all recorded": rules over the rows of `table` and the moves of `history`."""
    legal = ", ".join(f"('{source}', '{target}')" for source, target in [("", machine.first), *machine.moves])
    name = machine.name
    return {
        f"P8.{name}_state_is_its_last_move": f"""
            SELECT '{name} ' || t.id AS subject, t.state AS found, coalesce(m.to_state, 'a first move') AS expected
            FROM {table} t
            LEFT JOIN (SELECT DISTINCT ON (subject_id) subject_id, to_state FROM {history}
                       ORDER BY subject_id, id DESC) m ON m.subject_id = t.id
            WHERE m.to_state IS DISTINCT FROM t.state
        """,
        f"P8.{name}_moves_form_a_path": f"""
            SELECT '{name} ' || subject_id || ' move ' || id AS subject, from_state AS found, before AS expected
            FROM (SELECT subject_id, id, from_state,
                         lag(to_state, 1, ''::varchar) OVER (PARTITION BY subject_id ORDER BY id) AS before
                  FROM {history}) m
            WHERE from_state <> before
        """,
        f"P8.{name}_moves_are_legal": f"""
            SELECT '{name} ' || subject_id || ' move ' || id AS subject, from_state || ' -> ' || to_state AS found,
                   'a legal move' AS expected
            FROM {history} WHERE (from_state, to_state) NOT IN ({legal})
        """,
    }
