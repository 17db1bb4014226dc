"""What is done to evidence of jobs, money and tenants, and which rule must find it; others may find it too."""

from tests.referee.doctoring import NOBODY, Doctor, book, log, sql
from tests.referee.intact import AGAIN, CANCELLED, DONE, MICRO, line, received

OF_JOBS: dict[str, tuple[str, Doctor]] = {
    "an acknowledged job is gone": ("J1", sql(f"DELETE FROM jobs_job WHERE id = '{CANCELLED}'")),
    "an acknowledged job is of another key": (
        "J1",
        sql(f"UPDATE jobs_job SET idempotency_key = 'k7' WHERE id = '{DONE}'"),
    ),
    "a job that nobody asked for": ("J2", log(of=2, key="k8")),
    "one key is answered with two jobs": ("J3", log(line("submit", "ann", "k1", 202, CANCELLED, at=20))),
    "one key has two jobs": (
        "J3",
        sql(f"UPDATE jobs_job SET idempotency_key = 'k1' WHERE id = '{CANCELLED}'"),
    ),
    "a refused submit left its job": ("J4", log(of=2, status=402, job="")),
    "a hold without a job": ("J4", sql(f"UPDATE credits_hold SET job_id = '{NOBODY}' WHERE id = 2")),
    "a move that is not legal": ("J5", sql("UPDATE jobs_jobmove SET to_state = 'completed' WHERE id = 2")),
    "a completed job was moved on": (
        "J5",
        sql(
            f"INSERT INTO jobs_jobmove (id, subject_id, from_state, to_state) VALUES (99, '{DONE}', 'completed', 'failed')"
        ),
    ),
    "a move was not recorded": ("J5", sql("DELETE FROM jobs_jobmove WHERE id = 6")),
    "an end was never told": ("J5", sql("DELETE FROM webhooks_event WHERE id = 2")),
    "an end was told twice": (
        "J5",
        sql(f"INSERT INTO webhooks_event (id, type, job_id, job_run) VALUES (9, 'job.completed', '{DONE}', 1)"),
    ),
    "an end was told as another": ("J5", sql("UPDATE webhooks_event SET type = 'job.failed' WHERE id = 1")),
    "something is held for a job that ended": ("J6", sql("UPDATE credits_hold SET status = 'open' WHERE id = 2")),
    "nothing is held for a job that goes on": ("J6", sql(f"UPDATE jobs_job SET state = 'pending' WHERE id = '{DONE}'")),
    "a run was closed twice": (
        "I6",
        sql(
            "INSERT INTO credits_transfer (id, ledger, debit_id, credit_id, amount, code, hold_id)"
            f" VALUES (99, 'tenant', 3, 2, {MICRO}, 'settle', 1)"
        ),
    ),
    "a charge without delivery": ("J7", book(of=3, outcome="failed", billed=0)),
    "a charge of another price": ("J7", sql(f"UPDATE jobs_job SET charged = {MICRO + 1} WHERE id = '{DONE}'")),
    "a charge for nothing": ("J7", sql(f"UPDATE jobs_job SET charged = 1 WHERE id = '{CANCELLED}'")),
    "more captured than held": ("J8", sql(f"UPDATE credits_hold SET captured = {3 * MICRO} WHERE id = 1")),
    "charged and captured differ": ("J8", sql("UPDATE credits_hold SET captured = 5 WHERE id = 1")),
    "more given back than charged": (
        "J9",
        sql(
            "INSERT INTO credits_transfer (id, ledger, debit_id, credit_id, amount, code, reverses_id)"
            f" VALUES (99, 'tenant', 2, 3, {2 * MICRO}, 'refund', 3)"
        ),
    ),
    "what was cancelled in time was sent": ("J10", book(received(f"job.{CANCELLED}.a1", "acct-1", "failed"))),
    "a job that never ended": ("I10", sql(f"UPDATE jobs_job SET state = 'processing' WHERE id = '{AGAIN}'")),
    "an attempt whose consequences were not drawn": (
        "I10",
        sql("UPDATE jobs_attempt SET finished_at = NULL WHERE id = 1"),
    ),
    "a balance that was not booked": ("I3", sql("UPDATE credits_balance SET posted = posted + 1 WHERE account_id = 3")),
    "another tenant's job is shown": ("T1", log(of=6, status=200)),
    "another tenant's job is refused in other words": ("T1", log(of=7, answer={"title": "forbidden"})),
    "a wallet below its line": ("T2", sql("UPDATE credits_balance SET held = posted + 1 WHERE account_id = 3")),
    "a ledger that does not sum to nothing": (
        "T2",
        sql("UPDATE credits_account SET ledger = 'resource:1' WHERE id = 2"),
    ),
    "a version that goes back": ("T3", log(line("get", "ann", "", 200, DONE, at=20, version=3, state="completed"))),
    "one version with two states": ("T3", log(line("get", "ann", "", 200, DONE, at=20, version=4, state="failed"))),
    "not changed, and never told": ("T3", log(line("get", "ann", "", 304, NOBODY, at=20, unless=1))),
    "not changed, and nobody said since when": ("T3", log(of=9, unless=None)),
    "not changed, though a newer version was told": ("T3", log(line("get", "ann", "", 304, DONE, at=20, unless=3))),
    "an end that was not the end": ("I8", sql(f"UPDATE jobs_job SET state = 'failed' WHERE id = '{DONE}'")),
}
