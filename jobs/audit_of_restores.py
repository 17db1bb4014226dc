"""What must always hold after a restore, as SQL. Every row is a breach: (subject, found, expected)."""

RULES = {
    # What the upstream says that it has is taken up; nothing else begins before what was lost is over.
    "P2.quarantined_pool_begins_nothing": """
        SELECT 'attempt ' || a.id AS subject, 'opened at ' || a.opened_at AS found,
               'none since the pool was closed at ' || p.quarantined_at AS expected
        FROM pool_pool p JOIN pool_resource r ON r.pool_id = p.id JOIN jobs_attempt a ON a.resource_id = r.id
        WHERE p.quarantined_at IS NOT NULL AND a.opened_at > p.quarantined_at AND a.error_code <> 'restored'
          AND NOT EXISTS (SELECT FROM jobs_suspicion s WHERE s.attempt_id = a.id)
    """,
    "P4.suspected_job_waits_in_a_closed_pool": """
        SELECT 'job ' || s.job_id AS subject, 'pool ' || p.name || ' is open' AS found,
               'closed until it is decided whether the job was sent' AS expected
        FROM jobs_suspicion s JOIN pool_pool p ON p.id = s.pool_id
        WHERE s.decided_at IS NULL AND p.quarantined_at IS NULL
    """,
}
