"""What must always hold of jobs and their attempts, as SQL. Every row is a breach: (subject, found, expected).

Each rule holds in every committed state, so the audit may run under load. What a lowered limit leaves behind for a while
(more jobs running than a tenant may have now), and the order of turns among jobs that back off, are no breaches and have
no rule.
"""

from jobs.audit_of_files import RULES as OF_FILES
from jobs.audit_of_recovery import RULES as OF_RECOVERY
from jobs.audit_of_restores import RULES as OF_RESTORES
from jobs.states import ACCEPTED, CALLING, INTENDED, JOB, NOT_EXECUTED
from jobs.states import PROVEN_SQL as PROVEN
from jobs.states import TERMINAL_SQL as TERMINAL
from statemachine.audit import history_rules

TERMINAL_EVENTS = "(" + ", ".join(f"'job.{state}'" for state in JOB.terminal) + ")"
SENT = f"('{CALLING}', '{ACCEPTED}')"

# P1, one session, one job. P2, in use until the upstream is known to have ended.
SESSIONS = {
    "P1.one_open_attempt_per_resource": """
        SELECT 'resource ' || resource_id AS subject, count(*) AS found, 1 AS expected
        FROM jobs_attempt WHERE ended_at IS NULL GROUP BY resource_id HAVING count(*) > 1
    """,
    "P1.one_open_attempt_per_job": """
        SELECT 'job ' || job_id AS subject, count(*) AS found, 1 AS expected
        FROM jobs_attempt WHERE ended_at IS NULL GROUP BY job_id HAVING count(*) > 1
    """,
    "P1.session_is_given_to_the_attempts_job": """
        SELECT 'attempt ' || a.id AS subject, r.job_id AS found, a.job_id AS expected
        FROM jobs_attempt a JOIN pool_resource r ON r.id = a.resource_id
        WHERE a.ended_at IS NULL AND r.job_id IS DISTINCT FROM a.job_id
    """,
    "P1.session_in_use_has_an_open_attempt": """
        SELECT 'resource ' || r.id AS subject, r.state AS found, 'an open attempt' AS expected
        FROM pool_resource r LEFT JOIN jobs_attempt a ON a.resource_id = r.id AND a.ended_at IS NULL
        WHERE r.state IN ('reserved', 'busy') AND a.id IS NULL
    """,
    "P2.session_is_in_use_until_the_attempt_ends": f"""
        SELECT 'attempt ' || a.id || ' resource ' || r.id AS subject, r.state AS found,
               CASE a.phase WHEN '{INTENDED}' THEN 'reserved' ELSE 'busy' END AS expected
        FROM jobs_attempt a JOIN pool_resource r ON r.id = a.resource_id
        WHERE a.ended_at IS NULL AND r.state <> CASE a.phase WHEN '{INTENDED}' THEN 'reserved' ELSE 'busy' END
    """,
    "P2.attempt_counts_against_its_sessions_account": """
        SELECT 'attempt ' || a.id AS subject, a.account_id AS found, r.account_id AS expected
        FROM jobs_attempt a JOIN pool_resource r ON r.id = a.resource_id WHERE a.account_id <> r.account_id
    """,
    "P2.open_attempts_within_the_accounts_sessions": """
        SELECT 'account ' || a.account_id AS subject, count(*) AS found, r.sessions AS expected
        FROM jobs_attempt a
        JOIN (SELECT account_id, count(*) AS sessions FROM pool_resource GROUP BY account_id) r USING (account_id)
        WHERE a.ended_at IS NULL GROUP BY a.account_id, r.sessions HAVING count(*) > r.sessions
    """,
    "P9.open_attempt_has_its_sessions_fence": """
        SELECT 'attempt ' || a.id AS subject, a.fence AS found, r.fence AS expected
        FROM jobs_attempt a JOIN pool_resource r ON r.id = a.resource_id
        WHERE a.ended_at IS NULL AND a.fence <> r.fence
    """,
    "P9.fences_of_a_session_grow": """
        SELECT 'attempt ' || id AS subject, fence AS found, 'more than ' || before AS expected
        FROM (SELECT id, fence, lag(fence) OVER (PARTITION BY resource_id ORDER BY id) AS before FROM jobs_attempt) a
        WHERE fence <= before
    """,
}

# P3, a job that was accepted always has a way to its end. P6, a turn is held by jobs that may go.
WAYS = {
    "P3.assigned_has_an_intended_attempt": f"""
        SELECT 'job ' || j.id AS subject, coalesce(a.phase, 'no open attempt') AS found, '{INTENDED}' AS expected
        FROM jobs_job j LEFT JOIN jobs_attempt a ON a.job_id = j.id AND a.ended_at IS NULL
        WHERE j.state = 'assigned' AND a.phase IS DISTINCT FROM '{INTENDED}'
    """,
    "P3.processing_has_an_attempt_to_draw_from": f"""
        SELECT 'job ' || j.id AS subject, 'none' AS found, 'an attempt that was sent and not yet finished' AS expected
        FROM jobs_job j
        WHERE j.state = 'processing' AND NOT EXISTS (
            SELECT 1 FROM jobs_attempt a WHERE a.job_id = j.id AND a.finished_at IS NULL
               AND (a.ended_at IS NOT NULL OR a.phase IN {SENT}))
    """,
    "P3.waiting_or_ended_job_has_no_attempt_left": f"""
        SELECT 'job ' || j.id || ' attempt ' || a.id AS subject, j.state AS found, 'assigned or processing' AS expected
        FROM jobs_attempt a JOIN jobs_job j ON j.id = a.job_id
        WHERE a.finished_at IS NULL AND (j.state = 'pending' OR j.state IN {TERMINAL})
    """,
    "P3.open_attempt_is_watched": """
        SELECT 'attempt ' || id AS subject, 'neither' AS found, 'a lease, or a time to look at it' AS expected
        FROM jobs_attempt WHERE ended_at IS NULL AND lease_until IS NULL AND look_at IS NULL
    """,
    "P3.what_is_due_is_asked_for": """
        SELECT 'attempt ' || id AS subject, 'due since ' || LEAST(look_at, cancel_at) AS found,
               'asked for, or cancelled, by now' AS expected
        FROM jobs_attempt
        WHERE ended_at IS NULL AND LEAST(look_at, cancel_at) < statement_timestamp() - interval '1 day'
    """,
    "P3.leased_attempt_is_not_asked_for": """
        SELECT 'attempt ' || id AS subject, 'to be asked for at ' || look_at AS found, 'its call is under way' AS expected
        FROM jobs_attempt WHERE ended_at IS NULL AND lease_until IS NOT NULL AND look_at IS NOT NULL
    """,
    "P3.accepted_attempt_is_asked_not_leased": f"""
        SELECT 'attempt ' || id AS subject, 'leased by ' || holder AS found, 'no lease: its call was answered' AS expected
        FROM jobs_attempt WHERE ended_at IS NULL AND phase = '{ACCEPTED}' AND lease_until IS NOT NULL
    """,
    "P6.job_with_a_turn_is_not_waiting_for_a_time": """
        SELECT 'job ' || id AS subject, due_at AS found, 'no due time' AS expected
        FROM jobs_job WHERE state = 'pending' AND turn IS NOT NULL AND due_at IS NOT NULL
    """,
    "P6.running_job_has_its_turn": """
        SELECT 'job ' || id AS subject, 'none' AS found, 'a turn' AS expected
        FROM jobs_job WHERE state IN ('assigned', 'processing') AND turn IS NULL
    """,
    "P6.job_runs_in_its_pool": """
        SELECT 'attempt ' || a.id AS subject, r.pool_id AS found, j.pool_id AS expected
        FROM jobs_attempt a JOIN jobs_job j ON j.id = a.job_id JOIN pool_resource r ON r.id = a.resource_id
        WHERE a.ended_at IS NULL AND r.pool_id <> j.pool_id
    """,
}

# P4, one submit one job, one dispatch one effect.
ONCE = {
    "P4.idempotency_key_once": """
        SELECT 'tenant ' || tenant_id || ' key ' || idempotency_key AS subject, count(*) AS found, 1 AS expected
        FROM jobs_job GROUP BY tenant_id, idempotency_key HAVING count(*) > 1
    """,
    "P4.dispatch_key_once": """
        SELECT 'dispatch key ' || dispatch_key AS subject, count(*) AS found, 1 AS expected
        FROM jobs_attempt GROUP BY dispatch_key HAVING count(*) > 1
    """,
    "P4.attempts_are_numbered_without_gaps": """
        SELECT 'job ' || j.id AS subject, coalesce(a.found, 'none') AS found, '1 to ' || j.attempts AS expected
        FROM jobs_job j
        LEFT JOIN (SELECT job_id, count(*) AS made, min(number) AS first, max(number) AS last,
                          min(number) || ' to ' || max(number) || ', ' || count(*) || ' of them' AS found
                   FROM jobs_attempt GROUP BY job_id) a ON a.job_id = j.id
        WHERE (j.attempts > 0 AND a.job_id IS NULL)
           OR a.made <> j.attempts OR a.first <> 1 OR a.last <> j.attempts
    """,
    "P4.work_that_was_taken_was_executed": f"""
        SELECT 'attempt ' || id AS subject, verdict AS found, 'unknown, at the least' AS expected
        FROM jobs_attempt WHERE verdict = '{NOT_EXECUTED}' AND told_at IS NOT NULL
    """,
    "P4.one_success_per_run": f"""
        SELECT 'job ' || job_id || ' run ' || run AS subject, count(*) AS found, 1 AS expected
        FROM jobs_attempt WHERE verdict IN {PROVEN} GROUP BY job_id, run HAVING count(*) > 1
    """,
    "P4.completed_job_has_its_success": f"""
        SELECT 'job ' || j.id AS subject, 'none' AS found, 'an attempt that succeeded' AS expected
        FROM jobs_job j
        LEFT JOIN jobs_attempt a ON a.job_id = j.id AND a.run = j.run AND a.verdict IN {PROVEN}
        WHERE j.state = 'completed' AND a.id IS NULL
    """,
}

# P5, money. A job of a tenant that is not billed has the price 0 and no hold, so these rules need not ask who is billed.
MONEY = {
    "P5.open_hold_has_an_unfinished_job": f"""
        SELECT 'hold ' || h.id || ' job ' || h.job_id AS subject, coalesce(j.state, 'no such job') AS found,
               'a job in run ' || h.run || ' that has not ended' AS expected
        FROM credits_hold h LEFT JOIN jobs_job j ON j.id = h.job_id
        WHERE h.attempt = 0 AND h.status = 'open' AND (j.id IS NULL OR j.state IN {TERMINAL} OR j.run <> h.run)
    """,
    "P5.unfinished_job_is_held": f"""
        SELECT 'job ' || j.id AS subject, coalesce(h.status || ' ' || h.amount, 'no hold') AS found,
               'open ' || j.price AS expected
        FROM jobs_job j LEFT JOIN credits_hold h ON h.job_id = j.id AND h.run = j.run AND h.attempt = 0
        WHERE j.state NOT IN {TERMINAL} AND (j.price > 0 OR h.id IS NOT NULL)
          AND (h.status IS DISTINCT FROM 'open' OR h.amount <> j.price)
    """,
    "P5.completed_job_is_charged_what_was_captured": """
        SELECT 'job ' || j.id AS subject, coalesce(h.status || ' ' || coalesce(h.captured, 0), 'no hold') AS found,
               'captured ' || j.charged AS expected
        FROM jobs_job j LEFT JOIN credits_hold h ON h.job_id = j.id AND h.run = j.run AND h.attempt = 0
        WHERE j.state = 'completed' AND (j.price > 0 OR j.charged > 0 OR h.id IS NOT NULL)
          AND (h.status IS DISTINCT FROM 'captured' OR h.captured IS DISTINCT FROM j.charged)
    """,
    "P5.earlier_run_costs_nothing": """
        SELECT 'hold ' || h.id || ' job ' || h.job_id || ' run ' || h.run AS subject, h.status AS found,
               'released: the job runs again' AS expected
        FROM credits_hold h JOIN jobs_job j ON j.id = h.job_id
        WHERE h.attempt = 0 AND h.run < j.run AND h.status <> 'released'
    """,
    "P5.open_attempt_alone_holds_of_its_account": """
        SELECT 'hold ' || h.id || ' job ' || h.job_id || ' attempt ' || h.attempt AS subject,
               CASE WHEN a.id IS NULL THEN 'no such attempt' ELSE 'an attempt that is over' END AS found,
               'an attempt whose consequences are not drawn' AS expected
        FROM credits_hold h
        LEFT JOIN jobs_attempt a ON a.job_id = h.job_id AND a.number = h.attempt AND a.run = h.run
        WHERE h.attempt > 0 AND h.status = 'open' AND (a.id IS NULL OR a.finished_at IS NOT NULL)
    """,
    "P5.executed_attempt_is_charged_to_its_account": f"""
        SELECT 'hold ' || h.id || ' job ' || h.job_id || ' attempt ' || h.attempt AS subject, h.status AS found,
               CASE a.verdict WHEN '{NOT_EXECUTED}' THEN 'released' ELSE 'captured' END AS expected
        FROM credits_hold h
        JOIN jobs_attempt a ON a.job_id = h.job_id AND a.number = h.attempt AND a.run = h.run
        WHERE h.attempt > 0 AND a.finished_at IS NOT NULL
          AND h.status <> CASE a.verdict WHEN '{NOT_EXECUTED}' THEN 'released' ELSE 'captured' END
    """,
    # A minute: an attempt that is opened while its account begins to be tracked holds nothing of it.
    "P5.reported_cost_is_charged": f"""
        SELECT 'attempt ' || a.id AS subject, coalesce(h.status, 'no hold') AS found,
               'captured, since it cost ' || a.reported_cost AS expected
        FROM jobs_attempt a
        JOIN pool_upstreamaccount u ON u.id = a.account_id AND a.opened_at > u.tracked_since + interval '1 minute'
        LEFT JOIN credits_hold h ON h.job_id = a.job_id AND h.attempt = a.number AND h.run = a.run
        WHERE a.reported_cost IS NOT NULL AND a.finished_at IS NOT NULL AND a.verdict <> '{NOT_EXECUTED}'
          AND h.status IS DISTINCT FROM 'captured'
    """,
    "P5.account_hold_is_of_the_attempts_account": """
        SELECT 'hold ' || h.id || ' attempt ' || a.id AS subject, c.ledger || ' ' || c.owner_id AS found,
               'resource:' || r.pool_id || ' ' || a.account_id AS expected
        FROM credits_hold h JOIN credits_account c ON c.id = h.account_id
        JOIN jobs_attempt a ON a.job_id = h.job_id AND a.number = h.attempt AND a.run = h.run
        JOIN pool_resource r ON r.id = a.resource_id
        WHERE h.attempt > 0 AND (c.owner_id, c.ledger) IS DISTINCT FROM (a.account_id, 'resource:' || r.pool_id)
    """,
    "P7.unaffordable_job_stands_in_no_line": """
        SELECT 'job ' || id AS subject, state || ', turn ' || coalesce(turn::text, 'none') AS found,
               'pending, no turn, a time to look again' AS expected
        FROM jobs_job WHERE unaffordable AND state = 'pending' AND (turn IS NOT NULL OR due_at IS NULL)
    """,
    "P5.late_completion_is_booked_as_decided": """
        SELECT 'job ' || job_id || ' run ' || run AS subject, coalesce(t.amount, 0) AS found,
               coalesce(l.booked, 0) AS expected
        FROM (SELECT * FROM jobs_latecompletion WHERE decided_at IS NOT NULL) l
        FULL JOIN (SELECT h.job_id, h.run, sum(t.amount)::bigint AS amount
                   FROM credits_transfer t JOIN credits_hold h ON h.id = t.hold_id
                   WHERE t.code = 'late_completion' GROUP BY h.job_id, h.run) t USING (job_id, run)
        WHERE coalesce(t.amount, 0) <> coalesce(l.booked, 0)
    """,
    "P5.late_completion_is_decided": f"""
        SELECT 'job ' || l.job_id || ' run ' || l.run AS subject, 'undecided since ' || l.at AS found,
               'decided: the run has ended' AS expected
        FROM jobs_latecompletion l JOIN jobs_job j ON j.id = l.job_id
        WHERE l.decided_at IS NULL AND (j.run > l.run OR j.state IN {TERMINAL})
          AND l.look_at < statement_timestamp() - interval '1 hour'
    """,
    "P5.unsuccessful_job_is_not_charged": """
        SELECT 'job ' || j.id AS subject, coalesce(h.status, 'no hold') || ', charged ' || j.charged AS found,
               'released, charged 0' AS expected
        FROM jobs_job j LEFT JOIN credits_hold h ON h.job_id = j.id AND h.run = j.run AND h.attempt = 0
        WHERE j.state IN ('failed', 'cancelled')
          AND (j.charged <> 0 OR ((j.price > 0 OR h.id IS NOT NULL) AND h.status IS DISTINCT FROM 'released'))
    """,
}

# P11, tenants are apart. P12, a job's end is told, once.
TENANTS_AND_EVENTS = {
    "P11.hold_is_of_the_jobs_tenant": """
        SELECT 'hold ' || h.id AS subject, c.owner_id AS found, j.tenant_id AS expected
        FROM credits_hold h JOIN credits_account c ON c.id = h.account_id JOIN jobs_job j ON j.id = h.job_id
        WHERE h.attempt = 0 AND c.owner_id IS DISTINCT FROM j.tenant_id
    """,
    "P11.event_is_of_the_jobs_tenant": """
        SELECT 'event ' || e.id AS subject, e.tenant_id AS found, j.tenant_id AS expected
        FROM webhooks_event e JOIN jobs_job j ON j.id = e.job_id WHERE e.tenant_id <> j.tenant_id
    """,
    "P12.ended_job_has_one_event_of_its_end": f"""
        SELECT 'job ' || j.id || ' run ' || j.run AS subject, coalesce(e.types, 'none') AS found,
               'job.' || j.state AS expected
        FROM jobs_job j
        LEFT JOIN (SELECT job_id, job_run, string_agg(type, ', ') AS types FROM webhooks_event
                   WHERE type IN {TERMINAL_EVENTS} GROUP BY job_id, job_run) e ON e.job_id = j.id AND e.job_run = j.run
        WHERE j.state IN {TERMINAL} AND e.types IS DISTINCT FROM 'job.' || j.state
    """,
    "P12.unfinished_job_has_no_event_of_its_end": f"""
        SELECT 'job ' || j.id || ' run ' || j.run AS subject, e.type AS found, 'none' AS expected
        FROM webhooks_event e JOIN jobs_job j ON j.id = e.job_id AND j.run = e.job_run
        WHERE e.type IN {TERMINAL_EVENTS} AND j.state NOT IN {TERMINAL}
    """,
}

RULES: dict[str, str] = {
    **SESSIONS,
    **WAYS,
    **ONCE,
    **MONEY,
    **TENANTS_AND_EVENTS,
    **OF_FILES,
    **OF_RESTORES,
    **OF_RECOVERY,
    "P8.each_run_after_the_first_is_a_replay": """
        SELECT 'job ' || j.id AS subject, 1 + coalesce(m.replays, 0) || ' begun' AS found, 'run ' || j.run AS expected
        FROM jobs_job j
        LEFT JOIN (SELECT subject_id, count(*) AS replays FROM jobs_jobmove
                   WHERE from_state IN ('failed', 'cancelled') AND to_state = 'pending' GROUP BY subject_id) m
          ON m.subject_id = j.id
        WHERE j.run <> 1 + coalesce(m.replays, 0)
    """,
    **history_rules(JOB, "jobs_job", "jobs_jobmove"),
}
