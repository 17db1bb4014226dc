"""Drawing the consequences of ended attempts: each job's arrow, its money and its event, in one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import F
from django.db.models.functions import Now

from credits import ledger, pricing, upstream_accounts
from credits.upstream_accounts import AttemptEnd
from jobs import health, journal, turns
from jobs.models import Job
from jobs.queries import endings
from jobs.states import JOB, NOT_EXECUTED
from jobs.verdicts import Decision, decide, told
from statemachine.crashpoints import crashpoint
from statemachine.machine import Moved
from statemachine.sql import Row
from upstream.expressions import SETTLE_NAMES, ExpressionError, compile_expression
from webhooks import outbox
from webhooks.models import Event

MOST_OVERRUN = 10  # times what was held; above it the usage is not believed, and nobody pays for it
MOST_UNEXPECTED = 1_000 * pricing.MICRO  # the same where nothing was held, or expected
_TERMINAL = {"finished_at": "clock_timestamp()"}


def close(cases: Sequence[Row]) -> int:
    """Takes the arrow of each case (rows of `endings.ended`, locked); returns how many jobs moved."""
    decided = [(case, decide(case)) for case in cases if case["state"] == "processing"]
    by_verb: dict[str, list[tuple[Row, Decision]]] = {}
    for case, decision in decided:
        by_verb.setdefault(decision.verb, []).append((case, decision))
    health.heal(cases)
    # Each step below locks the wallets it needs in their order; one after the other they would not be in order.
    ledger.lock_wallets({case["tenant_id"] for case, _ in decided})
    crashpoint("finish.locked", decided)
    moved = _complete([case for case, _ in by_verb.get("complete", [])])
    moved += _give_back("fail", by_verb.get("fail", []))
    moved += _give_back("cancel_ended", by_verb.get("cancel_ended", []))
    moved += _retry(by_verb.get("retry", []))
    make_room([case for case in cases if case["capped"]])
    crashpoint("finish.told", decided)
    endings.mark_finished([case["attempt_id"] for case in cases])
    crashpoint("finish.marked", decided)
    _charge_accounts([case for case in cases if case["tracks_credits"]])
    crashpoint("finish.charged", decided)
    return moved


def give_up(verb: str, job_ids: Sequence[UUID], *, code: str, message: str, where: str = "", cause: str = "") -> int:
    """Ends jobs that were not sent, as far as we know: nothing is charged. Returns how many moved."""
    error = {"code": code, "message": message, "retryable": False}
    moved = JOB.take(
        verb, [{"id": job_id, "error": error} for job_id in job_ids], columns=_TERMINAL, where=where, cause=cause
    )
    crashpoint("give_up.moved", moved)
    jobs = Job.objects.filter(pk__in=[job.id for job in moved]).select_related("type")
    ledger.lock_wallets({job.tenant_id for job in jobs})
    ledger.release([(job.pk, job.run) for job in jobs], code)
    crashpoint("give_up.released", moved)
    make_room([{"pool_id": job.pool_id, "tenant_id": job.tenant_id} for job in jobs])
    if verb == "expire":
        journal.failed(
            [{"id": job.pk, "tenant_id": job.tenant_id, "pool_id": job.pool_id} for job in jobs],
            {job.pk: error for job in jobs},
        )
    outbox.write(
        _event(
            {"id": job.pk, "tenant_id": job.tenant_id, "run": job.run, "type": job.type.name},
            job.state,
            job.version,
            error,
        )
        for job in jobs
    )
    return len(moved)


def make_room(ended: Iterable[Mapping[str, Any]]) -> None:
    """What ended no longer counts against max_running: the tenant's next jobs get turns, in the same transaction."""
    lines: dict[int, set[int]] = {}
    for row in ended:
        lines.setdefault(row["pool_id"], set()).add(row["tenant_id"])
    ledger.lock_wallets({tenant_id for tenant_ids in lines.values() for tenant_id in tenant_ids})
    for pool_id, tenant_ids in sorted(lines.items()):
        turns.give(pool_id, sorted(tenant_ids))


def give_back_to_accounts(attempts: Sequence[Row], why: str) -> None:
    """What these attempts, which were never sent, had set aside of their upstream accounts."""
    upstream_accounts.close(
        [AttemptEnd(attempt["job_id"], attempt["run"], attempt["number"], None) for attempt in attempts], why
    )


def request_cancel(job_id: UUID) -> bool:
    """A processing job is asked to stop; its attempt's end decides. False when it was asked before, or does not run."""
    asked = Job.objects.filter(pk=job_id, state="processing", cancel_requested_at=None).update(
        cancel_requested_at=Now(), version=F("version") + 1
    )
    crashpoint("cancel.flagged", asked)
    return bool(asked)


def _complete(cases: list[Row]) -> int:
    charges = {case["id"]: charge(case) for case in cases}
    closings = [
        # Also of tenants that are not billed: what was held when the job came is closed, whatever was changed since.
        ledger.Closing(case["id"], case["run"], charges[case["id"]][0], case["overrun"])
        for case in cases
    ]
    settled = {closed.job_id: closed for closed in ledger.settle(closings)}
    crashpoint("finish.settled", cases)
    flags = {}
    for case in cases:
        over = settled[case["id"]].overrun if case["id"] in settled else 0
        above = f"usage above the hold, {case['overrun']}: {over / pricing.MICRO:g}" if over else ""
        if why := charges[case["id"]][1] or case["usage_problem"] or above:
            journal.flagged(case, why)
        flags[case["id"]] = why
    rows = [
        {
            "id": case["id"],
            "result": case["result"],
            "charged": settled[case["id"]].captured if case["id"] in settled else 0,
            "flagged": flags[case["id"]],
            "tries": case["tries"] + 1,
        }
        for case in cases
    ]
    return _tell(JOB.take("complete", rows, columns=_TERMINAL), cases, {})


def _give_back(verb: str, cases: list[tuple[Row, Decision]]) -> int:
    ledger.release([(case["id"], case["run"]) for case, decision in cases], verb)
    crashpoint("finish.released", cases)
    errors = {case["id"]: told(case, decision) for case, decision in cases}
    if verb == "fail":
        journal.failed([case for case, _ in cases], {case["id"]: {"code": decision.code} for case, decision in cases})
    rows = [{"id": case["id"], "error": errors[case["id"]], "tries": case["tries"] + 1} for case, _ in cases]
    return _tell(JOB.take(verb, rows, columns=_TERMINAL), [case for case, _ in cases], errors)


def _retry(cases: list[tuple[Row, Decision]]) -> int:
    rows = [
        {
            "id": case["id"],
            "tries": case["tries"] + int(decision.counted),
            "due_at": (case["now"] + timedelta(milliseconds=decision.pause_ms)).isoformat(),
        }
        for case, decision in cases
    ]
    for case, decision in cases:
        journal.retried(case, decision.code, decision.pause_ms)
    return len(JOB.take("retry", rows, columns={"turn": "NULL"}))


def _charge_accounts(cases: Sequence[Row]) -> None:
    """What each attempt took of its upstream account; one that was not executed took nothing."""
    ends = []
    for case in cases:
        spent, odd = (None, "") if case["verdict"] == NOT_EXECUTED else _spent(case)
        ends.append(AttemptEnd(case["id"], case["attempt_run"], case["number"], spent))
        if odd:
            journal.flagged(case, odd)
            endings.flag(case["id"], odd)
    upstream_accounts.close(ends)


def _spent(case: Row) -> tuple[int, str]:
    """By what the upstream said that it took; else, where no cost is declared, by what the usage costs; else as expected.

    And what to flag: what is more than ten times what was expected is not believed. A failure that says nothing of usage is
    taken to have used what was expected: a reading tells if it did not.
    """
    expected, reported = int(case["cost"]), case["reported_cost"]
    if reported is not None:
        if reported > _most(expected):
            texts = pricing.decimal_text(reported), pricing.decimal_text(expected)
            return expected, f"absurd cost: {texts[0]} where {texts[1]} were expected of the account"
        return int(reported), ""
    if not case["has_cost"] and case["settle"] and case["units"] is not None:
        # By the type's own price, whatever this tenant pays for it.
        return charge({**case, "price": expected})[0], ""
    return expected, ""


def charge(case: Mapping[str, Any]) -> tuple[int, str]:
    """What a success costs, in micro-credits, and what to flag. Unusable or absurd usage costs what was held."""
    if not case["settle"]:
        return case["price"], ""
    known = {
        "payload": case["payload"],
        "job": {"id": str(case["id"]), "type": case["type"], "attempt": case["number"], "metadata": case["metadata"]},
        "tenant": {"name": case["tenant"]},
        "outcome": {"units": case["units"]},
        "held": case["price"] / pricing.MICRO,
        "price": case["price"] / pricing.MICRO,
    }
    try:
        amount = pricing.to_micro(compile_expression(case["settle"], SETTLE_NAMES).evaluate(known))
    except (ExpressionError, pricing.PriceError) as error:
        return case["price"], f"settle: {error}"[:500]
    if amount > _most(case["price"]):
        texts = pricing.decimal_text(amount), pricing.decimal_text(case["price"])
        return case["price"], f"absurd usage: {texts[0]} for {texts[1]} held"
    return amount, ""


def _most(expected: int) -> int:
    """What is believed where so much was expected, in micro-credits."""
    return expected * MOST_OVERRUN or MOST_UNEXPECTED


def _tell(moved: Sequence[Moved], cases: Sequence[Row], errors: dict[UUID, Any]) -> int:
    crashpoint("finish.moved", moved)
    by_id = {case["id"]: case for case in cases}
    # It was locked at `version`, and its arrow is the one move since.
    outbox.write(_event(by_id[job.id], job.state, by_id[job.id]["version"] + 1, errors.get(job.id)) for job in moved)
    return len(moved)


def _event(case: Row, state: str, version: int, error: Any) -> Event:
    """The terminal event of a job (id, tenant_id, run, type) that moved to `state`, and has this version since."""
    job_id = case["id"]
    data = {"id": str(job_id), "type": case["type"], "state": state, "version": version, "error": error}
    return Event(
        tenant_id=case["tenant_id"],
        type=f"job.{state}",
        job_id=job_id,
        job_run=case["run"],
        job_version=version,
        body={"type": f"job.{state}", "data": {**data, "urls": {"self": f"/v1/jobs/{job_id}"}}},
    )
