"""What is done to evidence of executions, attempts and sessions, which rule must find it, and what is no breach."""

from tests.referee.doctoring import NOBODY, Doctor, book, both, sql
from tests.referee.intact import AGAIN, BEGAN, BOOK, CANCELLED, DONE, KEYS, Doctored, changed, execution, received

# The second job's runs are one; its type allows repeats; nobody knows what came of its first attempt, or only late.
ONE_RUN = "UPDATE jobs_attempt SET run = 2 WHERE id = 2;"
REPEATABLE = f"UPDATE jobs_job SET type_id = 2 WHERE id = '{AGAIN}';"
UNKNOWN = "UPDATE jobs_attempt SET verdict = 'unknown', called_at = called_at - interval '1 day' WHERE id = 2;"
CANCELLED_IN_RUN_1 = f"""UPDATE jobs_job SET run = 1, state = 'cancelled', charged = 0 WHERE id = '{AGAIN}';
UPDATE jobs_jobmove SET to_state = 'cancelled' WHERE id = 10; DELETE FROM jobs_jobmove WHERE id > 10;
DELETE FROM webhooks_event WHERE id = 4; UPDATE webhooks_event SET type = 'job.cancelled' WHERE id = 3;
DELETE FROM credits_hold WHERE id IN (4, 6); DELETE FROM credits_transfer WHERE id IN (4, 7);
UPDATE credits_balance SET posted = posted + 2000000 WHERE account_id > 3; DELETE FROM jobs_attempt WHERE id = 3;"""
WANTED = f"UPDATE jobs_job SET cancel_requested_at = now() WHERE id = '{AGAIN}';"
TOLD_LATE = """
INSERT INTO jobs_evidence (id, attempt_id, kind, content) VALUES (1, 2, 'callback', '{"verdict": "succeeded"}');"""

OF_UPSTREAMS: dict[str, tuple[str, Doctor]] = {
    "a run was executed twice": (
        "U1",
        both(book(of=4, outcome="done"), sql(ONE_RUN)),
    ),
    "a run was executed again before it had failed": (
        "U1",
        both(book(of=4, end=BEGAN + 7), sql(ONE_RUN)),
    ),
    "work that may be repeated was repeated unasked": (
        "U1",
        both(book(of=4, outcome="done"), sql(ONE_RUN + REPEATABLE + UNKNOWN)),
    ),
    "what may be repeated was repeated, though it was done": (
        "U1",
        both(book(of=4, outcome="done"), sql(ONE_RUN + REPEATABLE)),
    ),
    "a key that may be repeated was executed twice": (
        "U1",
        both(book(execution(9, KEYS[2], "acct-2", 20)), sql(REPEATABLE)),
    ),
    "an attempt was over before its execution": ("U2b", book(of=3, end=BEGAN + 3.2)),
    "an execution that never ended": ("U2b", book(of=5, end=None, outcome="running")),
    "a session was let go before its execution had ended": (
        "U2b",
        sql("UPDATE pool_resourcemove SET at = at - interval '1 second' WHERE id = 5"),
    ),
    "nobody knew, and its time was not over": (
        "U2b",
        both(book(of=4, end=BEGAN + 8), sql("UPDATE jobs_attempt SET verdict = 'unknown' WHERE id = 2")),
    ),
    "a success that was known is not the job's": (
        "J7b",
        sql("UPDATE jobs_jobmove SET to_state = 'failed' WHERE id = 4"),
    ),
    "a delivered success is said to have failed": ("J7b", book(of=4, outcome="done")),
    "a delivered success that nobody asked for": (
        "J7b",
        both(book(of=4, outcome="done"), sql(REPEATABLE + UNKNOWN)),
    ),
    "a success that surfaced late is forgotten": (
        "J7b",
        both(
            book(of=4, outcome="done"),
            sql("UPDATE jobs_jobtype SET upstream = '{}';" + UNKNOWN + TOLD_LATE),
        ),
    ),
    "a success is cancelled, and nobody wanted it": (
        "J7b",
        both(book(of=4, outcome="done"), sql(UNKNOWN + CANCELLED_IN_RUN_1)),
    ),
    "a success is cancelled, and said to have failed": (
        "J7b",
        both(book(of=4, outcome="done"), sql(CANCELLED_IN_RUN_1 + WANTED)),
    ),
    "an execution without a key": ("I7", book(execution(9, "", "acct-2", 20))),
    "an execution of a key that is not ours": ("I7", book(execution(9, f"{DONE}-1", "acct-2", 20))),
    "a key was executed twice": ("U1", book(execution(9, KEYS[0], "acct-2", 20))),
    "what was not executed was": ("U1", sql("UPDATE jobs_attempt SET verdict = 'not_executed' WHERE id = 1")),
    "an account runs more than it has": ("U2", book(execution(9, "strange", "acct-1", 2))),
    "a request beyond the ceiling": ("U2", book(received(KEYS[2], "acct-1", "over_limit"))),
    "credits that went where nobody knows": (
        "U3",
        sql("INSERT INTO credits_reading (id, account_id, drift) VALUES (1, 9, 5)"),
    ),
    "what was billed is not booked": (
        "I13",
        sql("UPDATE credits_hold SET status = 'released' WHERE id = 5"),
    ),
    "of what was billed nothing was held": ("I13", sql("DELETE FROM credits_hold WHERE id = 5")),
    "less is booked than was billed": ("I13", sql("UPDATE credits_hold SET captured = 1 WHERE id = 5")),
    "another account's credential": ("U4", book(received(KEYS[1], "acct-1"))),
    "an attempt without a job": ("U5", sql(f"UPDATE jobs_attempt SET job_id = '{NOBODY}' WHERE id = 2")),
    "a dispatch key of two attempts": ("U5", sql(f"UPDATE jobs_attempt SET dispatch_key = '{KEYS[0]}' WHERE id = 2")),
    "an execution that we do not know of": ("I7", book(execution(9, f"job.{CANCELLED}.a1", "acct-2", 20))),
    "an execution before its intent": ("I7", sql("UPDATE jobs_attempt SET called_at = NULL WHERE id = 1")),
    "a session that was never given back": ("I2", sql("UPDATE pool_resource SET state = 'busy' WHERE id = 1")),
    "a session that rests for ever": ("I2", sql("UPDATE pool_resource SET state = 'cooldown' WHERE id = 1")),
    "two attempts on one session": (
        "I1",
        sql("UPDATE jobs_attempt SET opened_at = '2030-01-01 00:00:02' WHERE id = 3"),
    ),
    "a fence that did not grow": ("I1", sql("UPDATE jobs_attempt SET fence = 1 WHERE id = 3")),
    "a session given out while it rested": (
        "I11",
        sql("UPDATE pool_resourcemove SET from_state = 'cooldown' WHERE id = 3"),
    ),
}


def _cancelled_by_wish(world: Doctored) -> None:
    """Without the run that came after."""
    sql(UNKNOWN + CANCELLED_IN_RUN_1 + WANTED)(world)
    of_run_2 = {KEYS[2]}
    world.book = [each for each in changed(BOOK, 4, outcome="done") if each["key"] not in of_run_2]
    world.log = [each for each in world.log if each["act"] != "replay"]


# What looks like a breach and is none.
ASKED = "UPDATE jobs_attempt SET asked_at = ended_at WHERE id = 2;"
EXCUSES: dict[str, Doctor] = {
    "repeated as it failed": both(book(of=4, billed=2.0), sql(ONE_RUN + REPEATABLE)),
    "repeated when it had been asked for in vain": both(
        book(of=4, outcome="done", billed=2.0), sql(ONE_RUN + REPEATABLE + UNKNOWN + ASKED)
    ),
    "not found out, and waited out": both(
        book(of=4, end=BEGAN + 4, outcome="done"), sql("UPDATE jobs_jobtype SET upstream = '{}';" + UNKNOWN)
    ),
    "declared over by an operator": both(
        book(of=4, end=BEGAN + 4, outcome="done"),
        sql("INSERT INTO jobs_evidence (id, attempt_id, kind, content) VALUES (1, 2, 'operator', '{}')"),
    ),
    "told late, and remembered": both(
        book(of=4, outcome="done"),
        sql("UPDATE jobs_jobtype SET upstream = '{}';" + UNKNOWN + TOLD_LATE),
        sql(f"INSERT INTO jobs_latecompletion (id, job_id, run, decided_at) VALUES (1, '{AGAIN}', 1, now())"),
    ),
    "cancelled by wish, and not sent again to learn what came of it": _cancelled_by_wish,
    "done, and its result could not be fetched": both(
        book(of=4, outcome="done"), sql("UPDATE jobs_attempt SET error_code = 'result_unavailable' WHERE id = 2")
    ),
    "of an account that is not tracked": both(
        sql("UPDATE pool_upstreamaccount SET tracked_since = NULL"),
        sql("DELETE FROM credits_hold WHERE id > 4; DELETE FROM credits_transfer WHERE id > 4"),
        sql("UPDATE credits_balance SET posted = 0 WHERE account_id = 5"),
    ),
}
