"""What must hold of the history of any machine, as SQL for the audit."""

from statemachine.machine import Machine


def history_rules(machine: Machine, table: str, history: str) -> dict[str, str]:
    """P8, "only legal moves, all recorded": rules over the rows of `table` and the moves of `history`."""
    legal = ", ".join(f"('{source}', '{target}')" for source, target in [("", machine.first), *machine.moves])
    name = machine.name
    return {
        # One pass: each move begins where the one before ended, and the last ends where the row stands.
        f"P8.{name}_moves_lead_to_its_state": f"""
            SELECT '{name} ' || coalesce(t.id, m.subject_id) || coalesce(' move ' || m.id, '') AS subject,
                   CASE WHEN m.from_state <> m.before THEN m.from_state ELSE coalesce(t.state, 'no row') END AS found,
                   CASE WHEN m.from_state <> m.before THEN m.before ELSE coalesce(m.to_state, 'a move') END AS expected
            FROM (SELECT subject_id, id, from_state, to_state,
                         lag(to_state, 1, ''::varchar) OVER moves AS before, lead(id) OVER moves AS next
                  FROM {history} WINDOW moves AS (PARTITION BY subject_id ORDER BY id)) m
            FULL JOIN {table} t ON t.id = m.subject_id AND m.next IS NULL
            WHERE m.from_state <> m.before OR (m.next IS NULL AND t.state IS DISTINCT FROM m.to_state)
        """,
        f"P8.{name}_moves_are_legal": f"""
            SELECT '{name} ' || subject_id || ' move ' || id AS subject, from_state || ' -> ' || to_state AS found,
                   'a legal move' AS expected
            FROM {history} WHERE (from_state, to_state) NOT IN ({legal})
        """,
    }
