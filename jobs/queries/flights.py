"""Attempts with all their calls need: those just begun, those to be asked for or cancelled, those whose lease lapsed."""

from collections.abc import Sequence
from uuid import UUID

from django.conf import settings

from jobs.flight import Flight
from jobs.queries.called_as import AS_CALLED, CALLED_AS
from jobs.states import ACCEPTED, CALLING, UNKNOWN
from statemachine.sql import fetch

# The intent is no sending: until its lease ends a call may still be on its way, and the upstream has max_runtime from then.
OF_TYPE_MS = f"jt.max_runtime_ms + {round(settings.LEASE_SECONDS * 1000)}"
# As it was when it was sent, since the upstream allows what it was told then; longer, if its type says so by now.
OVER_MS = f"GREATEST(a.over_ms, {OF_TYPE_MS})"
OVERDUE = f"a.called_at + make_interval(secs => {OVER_MS} / 1000.0)"
_FLIGHT = """
SELECT a.id AS attempt_id, a.fence, a.job_id, a.resource_id, a.dispatch_key, a.number, a.sendings, a.reference,
       a.error_class, a.error_code, a.error_message, a.phase, a.verdict, a.asks_failed, a.cancels, a.told_at, a.asked_at,
       j.cancel_requested_at IS NOT NULL AS cancel_wanted, {as_called},
       a.account_id, a.lease_until, a.ended_at,
       {overdue} <= clock_timestamp() AS waited_out, a.asked_at >= {overdue} AS asked_since,
       (extract(epoch FROM clock_timestamp() - a.called_at) * 1000)::float8 AS age_ms,
       (extract(epoch FROM c.ask_after - clock_timestamp()) * 1000)::float8 AS asks_rest_ms,
       (extract(epoch FROM p.quarantined_until - clock_timestamp()) * 1000)::float8 AS closed_ms,
       j.payload, j.metadata, j.crashes, jt.name AS type, jt.upstream::text AS type_upstream, {over_ms} AS over_ms,
       jt.retry,
       tt.name AS tenant, c.name AS account, c.sealed_credential, c.labels, c.vars, c.base_url, c.pool_id,
       p.upstream::text AS pool_upstream, p.cooldown_ms,
       EXISTS (SELECT FROM pool_accounthealth h WHERE h.account_id = c.id AND h.open_until IS NOT NULL)
       OR EXISTS (SELECT FROM pool_poolhealth q WHERE q.pool_id = p.id AND q.open_until IS NOT NULL) AS on_probe
       {beside}
FROM jobs_attempt a
JOIN jobs_job j ON j.id = a.job_id
JOIN jobs_jobtype jt ON jt.id = j.type_id
JOIN tenants_tenant tt ON tt.id = j.tenant_id
JOIN pool_upstreamaccount c ON c.id = a.account_id
JOIN pool_pool p ON p.id = c.pool_id
WHERE {where} ORDER BY a.id {lock}"""
_LOCKED = "FOR NO KEY UPDATE OF a"
# Whose outcome nobody is about to learn: unknown, or going on for longer than the upstream was to allow.
UNDECIDED = f"""a.lease_until IS NULL
    AND (a.verdict = '{UNKNOWN}' OR a.phase = '{ACCEPTED}' AND {OVERDUE} <= clock_timestamp())"""


def opened(attempt_ids: Sequence[int]) -> list[Flight]:
    """These attempts, if they are still open; beside what all flights have: called_as, of what this row calls with."""
    return _flights("a.id = ANY(%s) AND a.ended_at IS NULL", list(attempt_ids), "", f", {CALLED_AS} AS called_as")


def of_attempt(attempt_id: int) -> Flight | None:
    """This attempt, also when it has ended; None: there is none."""
    return next(iter(_flights("a.id = ANY(%s)", [attempt_id], "")), None)


def of_key(dispatch_key: str) -> Flight | None:
    """The attempt of this dispatch key, also when it has ended; None: there is none."""
    return next(iter(_flights("a.dispatch_key = ANY(%s)", [dispatch_key], "")), None)


def owing(attempt_ids: Sequence[int]) -> list[Flight]:
    """These attempts, whose results lie behind links; beside what all flights have: links, result, fetch_tries."""
    return _flights("a.id = ANY(%s)", list(attempt_ids), "", ", a.links, a.result, a.fetch_tries")


def doubted(job_ids: Sequence[UUID]) -> list[Flight]:
    """Locks the attempts of these jobs, accepted or doubted, that are due to be asked for; passes over what others have.

    What is leased is being called: its answer comes by itself.
    """
    where = "a.job_id = ANY(%s) AND a.ended_at IS NULL AND a.lease_until IS NULL AND a.look_at <= clock_timestamp()"
    return _flights(where, list(job_ids), f"{_LOCKED} SKIP LOCKED")


def to_cancel(job_ids: Sequence[UUID]) -> list[Flight]:
    """Locks the attempts of these jobs that the upstream is to be asked to cancel by now."""
    where = "a.job_id = ANY(%s) AND a.ended_at IS NULL AND a.cancel_at <= clock_timestamp()"
    return _flights(where, list(job_ids), _LOCKED)


def undecided(job_ids: Sequence[UUID]) -> list[Flight]:
    """Locks the attempts of these jobs whose outcome nobody is about to learn."""
    return _flights(f"a.job_id = ANY(%s) AND a.ended_at IS NULL AND {UNDECIDED}", list(job_ids), _LOCKED)


def lapsed(job_ids: Sequence[UUID]) -> list[Flight]:
    """Locks the attempts of these jobs that were calling when their lease ended."""
    where = f"""a.job_id = ANY(%s) AND a.ended_at IS NULL AND a.phase = '{CALLING}'
                AND a.lease_until <= clock_timestamp()"""
    return _flights(where, list(job_ids), _LOCKED)


def _flights(where: str, ids: list[int] | list[UUID] | list[str], lock: str, beside: str = "") -> list[Flight]:
    derived = {"overdue": OVERDUE, "over_ms": OVER_MS, "as_called": AS_CALLED}
    rows = fetch(_FLIGHT.format(where=where, lock=lock, beside=beside, **derived), [ids])
    return [Flight(row["attempt_id"], row["fence"], row["job_id"], row["resource_id"], row) for row in rows]
