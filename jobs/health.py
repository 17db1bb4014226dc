"""What the outcomes of calls say of their accounts; what follows for the sessions is decided in `pool.health`.

Asked only where something failed, or where a success has something to heal: as long as all is well, neither `learn` nor
`finish` runs a statement for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobs import journal
from jobs.findings import Finding, storable
from jobs.inputs import FILE_GONE, NO_ADDRESS
from jobs.inquiry import LONGEST_REST_MS
from jobs.queries import health_of_accounts as asked
from jobs.states import FAILED, NOT_EXECUTED, PROVEN, UNKNOWN
from jobs.verdicts import NEVER_SENT, UNREADABLE
from pool import health
from pool.health import Consequences, Kind, Questions, Sign
from upstream.calls import Outcome

LOST = frozenset({"timeout", "cut", "unreadable_answer", "connection_lost"})  # no answer, or none that can be read
SERVER_ERROR = 500
NOT_ASKED = frozenset({"mapping_error", FILE_GONE, NO_ADDRESS})  # it could not be built: the upstream said nothing


def kind_of(finding: Finding) -> Kind | None:
    """What it says of the account; None: nothing, or only what its end will say.

    Only what a sending was answered: work that is asked for later speaks of the work, and asking has a budget of its own.
    """
    outcome = finding.outcome
    if finding.kind != "answer":
        return None
    if outcome.verdict == "":  # the upstream took it: a probe need not end for the others to come back
        return "answered" if finding.flight.row["on_probe"] else None
    if outcome.verdict in PROVEN:
        return "well"
    if outcome.error_class == "busy":
        return "busy"
    if outcome.error_class == "auth":
        return None if outcome.error_code == UNREADABLE else "refused"
    return "transient" if _is_transient(outcome) else None


def weigh(findings: Sequence[Finding]) -> tuple[Sequence[Finding], Consequences | None]:
    """Before the attempts end: the findings, those of suspected jobs as rejected; and what `draw` is to do at the end.

    Where a call failed: locks all attempts of these findings, then the health of their pools, then sessions. A second caller
    waits at the pool and weighs what the first left. What came too late is not weighed.
    """
    kinds = {finding.flight.fenced: kind for finding in findings if (kind := kind_of(finding))}
    if not set(kinds.values()) - {"well"}:
        return findings, None
    standing = asked.standing([finding.flight.fenced for finding in findings])
    refused = [row["job_id"] for fenced, row in standing.items() if kinds.get(fenced) == "refused"]
    before = asked.refused(refused, but_code=UNREADABLE)
    signs = [
        Sign(
            kind=kinds[fenced],
            pool_id=row["pool_id"],
            account_id=row["account_id"],
            called_at=row["called_at"],
            rest_ms=min(finding.outcome.retry_after_ms or 0, LONGEST_REST_MS),
            at_once=finding.outcome.verdict == NOT_EXECUTED,
            why=_why(finding.outcome),
            job_id=row["job_id"],
            tenant_id=row["tenant_id"],
            elsewhere=frozenset(before.get(row["job_id"], ())),
            refusals=len(before.get(row["job_id"], ())),
        )
        for finding in findings
        if (fenced := finding.flight.fenced) in kinds and (row := standing.get(fenced))
    ]
    if not signs:
        return findings, None
    questions = Questions(asked.goes_on, asked.is_alone)
    done = health.weigh(signs, [row["resource_id"] for row in standing.values()], questions)
    journal.accounts(done.told)
    return [_blamed(finding) if finding.flight.job_id in done.suspects else finding for finding in findings], done


def draw(done: Consequences | None) -> None:
    """After the sessions were let go: what `weigh` found is done. Nothing, when all was well."""
    if done is not None:
        health.draw(done)


def heal(cases: Sequence[Mapping[str, Any]]) -> None:
    """Ended attempts (rows of `endings.ended`) that show that their accounts answer. Locks the health of their pools, then
    sessions; the jobs and attempts are locked, the balances not yet. Nothing, where nothing failed.
    """
    signs = [
        Sign(kind, case["pool_id"], case["account_id"], case["called_at"], case["attempt_ended_at"])
        for case in cases
        if case["ailing"] and (kind := _answered(case))
    ]
    if signs:
        journal.accounts(health.heal(signs))


def _answered(case: Mapping[str, Any]) -> Kind | None:
    if case["verdict"] in PROVEN:
        return "well"
    rejected = case["verdict"] == NOT_EXECUTED and case["error_class"] == "rejected"
    return "answered" if (rejected and case["error_code"] not in NOT_ASKED) or case["verdict"] == FAILED else None


def _is_transient(outcome: Outcome) -> bool:
    if outcome.error_class:
        return outcome.error_class == "transient" and outcome.error_code not in NEVER_SENT
    failed = outcome.status is not None and outcome.status >= SERVER_ERROR
    return outcome.verdict == UNKNOWN and (failed or outcome.error_code in LOST)


def _blamed(finding: Finding) -> Finding:
    """It was refused by a second account, or time and again: it is the job's fault."""
    return replace(finding, outcome=replace(finding.outcome, error_class="rejected"), of_account=True)


def _why(outcome: Outcome) -> str:
    """Code and message; the status where the code does not say it already, as `http_401` does. For the rows of health and
    of sessions, which are written with what others said: as PostgreSQL takes it.
    """
    said = outcome.status is None or str(outcome.status) in outcome.error_code
    status = "" if said else f"{outcome.status} "
    return str(storable(f"{status}{outcome.error_code}: {outcome.error_message}".strip(": ")))
