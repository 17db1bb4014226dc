"""What must always hold of the sessions, as SQL. Every row a rule returns is a breach: (subject, found, expected)."""

from pool.queries.health import LONGEST_MS, LOST
from pool.queries.sessions import WANTED
from pool.states import RESOURCE
from statemachine.audit import history_rules

# A minute ago its quarantine was over, and the rest of those that wait for the probe is not.
OVERDUE = f"""now() BETWEEN b.open_until + interval '1 minute' AND b.open_until
    + make_interval(secs => COALESCE((o.breaker->>'max_ms')::bigint, {LONGEST_MS}) / 1000.0)"""

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
    "P7.rested_session_comes_back": """
        SELECT 'resource ' || id AS subject, 'resting until ' || available_at AS found, 'available by now' AS expected
        FROM pool_resource WHERE state = 'cooldown' AND available_at < statement_timestamp() - interval '1 hour'
    """,
    # Else what rests by a breaker waits for its longest time, though a session could ask. The sweep finds another each second.
    "P7.open_breaker_is_probed": f"""
        SELECT 'pool ' || b.pool_id AS subject, coalesce(b.probe_id::text, 'no probe') AS found,
               'a session that may run' AS expected
        FROM pool_poolhealth b JOIN pool_pool o ON o.id = b.pool_id
        WHERE {LOST["pool_poolhealth"]} AND {OVERDUE}
        UNION ALL SELECT 'account ' || b.account_id, coalesce(b.probe_id::text, 'no probe'), 'a session that may run'
        FROM pool_accounthealth b JOIN pool_upstreamaccount c ON c.id = b.account_id JOIN pool_pool o ON o.id = c.pool_id
        WHERE {LOST["pool_accounthealth"]} AND {OVERDUE}
    """,
    **history_rules(RESOURCE, "pool_resource", "pool_resourcemove"),
}
