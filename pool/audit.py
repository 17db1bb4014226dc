"""What must always hold of the sessions, as SQL. Every row a rule returns is a breach: (subject, found, expected)."""

from pool.queries.sessions import WANTED
from pool.states import RESOURCE
from statemachine.audit import history_rules

RULES: dict[str, str] = {
    # P2, "the ceiling is the upstream's": we never offer more sessions than an account has.
    "P2.sessions_offered_within_the_account": """
        SELECT 'account ' || a.id AS subject, count(r.id) AS found, a.sessions AS expected
        FROM pool_upstreamaccount a JOIN pool_resource r ON r.account_id = a.id AND r.accepting
        GROUP BY a.id HAVING count(r.id) > a.sessions
    """,
    "P2.session_stands_in_its_accounts_pool": """
        SELECT 'resource ' || r.id AS subject, r.pool_id AS found, a.pool_id AS expected
        FROM pool_resource r JOIN pool_upstreamaccount a ON a.id = r.account_id WHERE r.pool_id <> a.pool_id
    """,
    "P2.session_in_use_knows_its_job": """
        SELECT 'resource ' || id AS subject, state AS found, 'a job' AS expected
        FROM pool_resource WHERE state IN ('reserved', 'busy') AND job_id IS NULL
    """,
    # What an operator wants of a session happens as soon as nothing runs on it.
    "P2.disabled_session_is_out_of_use": """
        SELECT 'resource ' || id AS subject, state AS found, 'offline, or ending its job' AS expected
        FROM pool_resource WHERE disabled AND state IN ('available', 'cooldown')
    """,
    # A session that anybody wants to rest is given to nobody; what it rests until is the latest that is wanted.
    "P2.resting_session_is_given_to_nobody": f"""
        SELECT 'resource ' || r.id AS subject, r.state || coalesce(' until ' || r.available_at, '') AS found,
               'a rest until ' || {WANTED.format("r")} AS expected
        FROM pool_resource r
        WHERE {WANTED.format("r")} > now() AND NOT r.disabled
          AND (r.state = 'available' OR (r.state = 'cooldown' AND r.available_at < {WANTED.format("r")}))
    """,
    "P2.refused_session_is_to_be_offline": """
        SELECT 'resource ' || id AS subject, state AS found, 'disabled' AS expected
        FROM pool_resource WHERE refused AND NOT disabled
    """,
    **history_rules(RESOURCE, "pool_resource", "pool_resourcemove"),
}
