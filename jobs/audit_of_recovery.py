"""What must always hold of work that something went wrong with, as SQL. Every row is a breach: (subject, found, expected).

What the sweep does within seconds may have waited as long as nothing ran at all; these rules allow hours for it.
"""

from jobs.states import ACCEPTED, CALLING, UNKNOWN

NOTICED_HOURS = 1
# Beyond max_runtime: an upstream may ask to be asked an hour later, and each asking has a time-out.
FOUND_OUT_HOURS = 2

RULES = {
    "P3.lease_that_ended_is_noticed": f"""
        SELECT 'attempt ' || id AS subject, 'a lease until ' || lease_until AS found,
               'unassigned, or doubted, by now' AS expected
        FROM jobs_attempt
        WHERE ended_at IS NULL AND lease_until < statement_timestamp() - interval '{NOTICED_HOURS} hours'
    """,
    # Where the upstream says that it runs it is believed; where it then tells nothing, the second time ends it. Of what was
    # called before attempts kept theirs, a changed type may have had another max_runtime. In a pool that is closed since a
    # restore nothing is sent again before its time is over.
    "P3.work_ends_by_its_max_runtime": f"""
        SELECT 'attempt ' || a.id AS subject, 'called at ' || a.called_at || coalesce(', asked at ' || a.asked_at, '') AS found,
               'over by ' || o.at AS expected
        FROM jobs_attempt a JOIN jobs_job j ON j.id = a.job_id JOIN jobs_jobtype t ON t.id = j.type_id
        JOIN pool_upstreamaccount c ON c.id = a.account_id JOIN pool_pool p ON p.id = c.pool_id
        CROSS JOIN LATERAL (SELECT GREATEST(p.quarantined_until, a.called_at + make_interval(
            secs => GREATEST(a.over_ms, t.max_runtime_ms) / 1000.0)) AS at) o
        WHERE a.ended_at IS NULL AND a.phase IN ('{CALLING}', '{ACCEPTED}')
          AND (a.over_ms IS NOT NULL OR j.price_version = t.version)
          AND o.at < statement_timestamp() - interval '{FOUND_OUT_HOURS} hours'
          AND (a.asked_at IS NULL OR a.asked_at < statement_timestamp() - interval '{FOUND_OUT_HOURS} hours'
               OR (a.verdict = '{UNKNOWN}' AND a.asks_failed > 1))
    """,
    "P4.job_is_redriven_once": """
        SELECT 'job ' || subject_id || ' ' || actor AS subject, count(*) AS found, 1 AS expected
        FROM jobs_jobmove WHERE from_state IN ('failed', 'cancelled') AND to_state = 'pending' AND actor LIKE 'redrive:%'
        GROUP BY subject_id, actor HAVING count(*) > 1
    """,
}
