"""What an ended attempt means for its job, as a table; no database."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from jobs.verdicts import BUSY_PAUSE_MS, CRASH_BUDGET, NEVER_SENT, decide, pause_ms

NOW = datetime(2026, 11, 30, tzinfo=UTC)
CASE: Mapping[str, Any] = {
    "verdict": "failed",
    "error_class": "",
    "error_code": "",
    "error_message": "",
    "retry_after_ms": None,
    "cancel_requested_at": None,
    "crashes": 0,
    "tries": 0,
    "max_attempts": 3,
    "delivery": "at_most_once",
    "retry": {},
    "started_at": NOW,
    "now": NOW,
}
LAST = {"tries": 2}
ASKED = {"cancel_requested_at": "2026-01-01T00:00:00Z"}
LOST = {"crashes": CRASH_BUDGET}
REPEATS = {"delivery": "at_least_once"}


@pytest.mark.parametrize(
    ("case", "verb", "code"),
    [
        # Proven success completes, whatever else is the matter.
        ({"verdict": "succeeded"}, "complete", ""),
        ({"verdict": "partial"}, "complete", ""),
        ({"verdict": "succeeded", **ASKED, **LAST, **LOST}, "complete", ""),
        # Asked to be cancelled: its end is a cancel.
        ({"verdict": "failed", **ASKED}, "cancel_ended", "cancelled"),
        ({"verdict": "unknown", **ASKED}, "cancel_ended", "cancelled"),
        ({"verdict": "not_executed", "error_class": "busy", **ASKED}, "cancel_ended", "cancelled"),
        # It kills its workers.
        ({"verdict": "failed", **LOST}, "fail", "crash_budget"),
        ({"verdict": "unknown", **LOST, **REPEATS}, "fail", "crash_budget"),
        ({"verdict": "failed", "crashes": CRASH_BUDGET - 1, **REPEATS}, "retry", "failed"),
        # The tenant's own fault.
        ({"verdict": "not_executed", "error_class": "rejected", "error_code": "bad"}, "fail", "bad"),
        ({"verdict": "unknown", "error_class": "rejected", "error_code": "bad"}, "fail", "outcome_unknown"),
        # Nobody's fault: it does not count, also on the last try.
        ({"verdict": "not_executed", "error_class": "busy"}, "retry", "busy"),
        ({"verdict": "not_executed", "error_class": "busy", **LAST}, "retry", "busy"),
        # Not executed: again while tries are left.
        ({"verdict": "not_executed", "error_class": "transient", "error_code": "connect"}, "retry", "connect"),
        ({"verdict": "not_executed", "error_class": "auth"}, "retry", "not_executed"),
        ({"verdict": "not_executed", "error_class": "", "error_code": "adapter_missing"}, "retry", "adapter_missing"),
        # Executed, and failed: again only where a second execution is allowed.
        ({"verdict": "failed", "error_code": "nsfw"}, "fail", "nsfw"),
        ({"verdict": "failed", "error_code": "nsfw", **REPEATS}, "retry", "nsfw"),
        ({"verdict": "failed", "error_code": "nsfw", **REPEATS, **LAST}, "fail", "nsfw"),
        ({"verdict": "not_executed", "max_attempts": 1}, "fail", "not_executed"),
        # Executed, and its result cannot be had: another execution would be paid twice.
        ({"verdict": "failed", "error_code": "result_unavailable", **REPEATS}, "fail", "result_unavailable"),
        # May have been executed: the delivery policy speaks.
        ({"verdict": "unknown"}, "fail", "outcome_unknown"),
        ({"verdict": "unknown", "error_code": "http_500"}, "fail", "outcome_unknown"),
        ({"verdict": "unknown", **REPEATS}, "retry", "unknown"),
        ({"verdict": "unknown", **REPEATS, **LAST}, "fail", "unknown"),
        # A repeat that was refused for being busy is still unknown.
        ({"verdict": "unknown", "error_class": "busy"}, "fail", "outcome_unknown"),
    ],
)
def test_what_an_end_means(case: Mapping[str, Any], verb: str, code: str) -> None:
    decision = decide({**CASE, **case})
    assert (decision.verb, decision.code) == (verb, code)


@pytest.mark.parametrize(
    ("case", "counted"),
    [
        ({"error_class": "busy"}, False),
        ({"error_class": "transient", "error_code": "worker_stopped"}, False),  # given up before it was sent
        ({"error_class": "transient", "error_code": "connect"}, True),
        ({"error_class": "auth", "error_code": "http_401"}, False),  # the account is offline; another takes it
        ({"error_class": "auth", "error_code": "credential"}, True),  # a key is missing here
    ],
)
def test_what_was_not_the_jobs_own_try_is_not_counted(case: Mapping[str, Any], counted: bool) -> None:
    decision = decide({**CASE, "verdict": "not_executed", **case})
    assert (decision.verb, decision.counted) == ("retry", counted)


def test_a_busy_upstream_rests_the_session_and_not_the_job() -> None:
    case = {**CASE, "verdict": "not_executed", "error_class": "busy", "retry_after_ms": 60_000}
    assert max(decide(case).pause_ms for _ in range(200)) <= BUSY_PAUSE_MS


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        ({"error_class": "busy"}, "busy"),
        ({"error_class": "auth", "error_code": "http_401"}, "http_401"),
    ],
)
def test_what_is_refused_for_long_is_a_try_from_then_on(refusal: Mapping[str, Any], code: str) -> None:
    for policy, hours in [({}, 24), ({"within_ms": 3_600_000}, 1)]:
        case = {**CASE, "verdict": "not_executed", **refusal, "retry": policy}
        before, after = (NOW + timedelta(hours=hours, seconds=seconds) for seconds in (-1, 0))
        assert not decide({**case, **LAST, "now": before}).counted
        counted = decide({**case, "now": after})
        assert (counted.verb, counted.code, counted.counted) == ("retry", code, True)
        last = decide({**case, **LAST, "now": after})
        assert (last.verb, last.code, last.retryable) == ("fail", code, True)


@pytest.mark.parametrize("code", NEVER_SENT)
def test_what_was_never_sent_is_never_a_try(code: str) -> None:
    """As when a worker is stopped before the second call of a job whose first one ran for two days."""
    case = {**CASE, **LAST, "verdict": "not_executed", "error_code": code, "now": NOW + timedelta(days=2)}
    decision = decide(case)
    assert (decision.verb, decision.counted, decision.pause_ms) == ("retry", False, 0)


def test_one_that_is_refused_for_hours_asks_ever_more_seldom() -> None:
    """All of a day in about a hundred tries, at first within a second of each other."""
    random.seed(7)
    now, pauses = NOW, []
    busy = {**CASE, "verdict": "not_executed", "error_class": "busy"}
    while not (decision := decide({**busy, "now": now})).counted:
        pauses.append(decision.pause_ms)
        now += timedelta(milliseconds=decision.pause_ms + 50)  # the call itself
    assert max(pauses[:10]) <= BUSY_PAUSE_MS
    assert max(pauses) <= 300_000, "retry.max"
    assert 100 < len(pauses) < 1_000


def test_a_job_that_used_up_its_tries_may_be_replayed_with_hope() -> None:
    assert decide({**CASE, **LAST, **REPEATS}).retryable
    assert not decide({**CASE, "error_class": "rejected"}).retryable


def test_pauses_grow_are_spread_and_have_a_ceiling() -> None:
    policy = {"first_ms": 100, "factor": 3, "max_ms": 2_000}
    for tries, ceiling in [(0, 100), (1, 300), (2, 900), (3, 2_000), (500, 2_000)]:
        pauses = [pause_ms(policy, tries) for _ in range(300)]
        assert 0 <= min(pauses) < ceiling * 0.2
        assert ceiling * 0.8 < max(pauses) <= ceiling


def test_the_jitter_is_full_and_even() -> None:
    """Each tenth of the time up to the ceiling gets a tenth of those that failed together."""
    random.seed(11)
    pauses = [pause_ms({"first_ms": 10_000, "max_ms": 10_000}, 0) for _ in range(10_000)]
    tenths = [sum(low <= pause < high for pause in pauses) for low, high in pairwise(range(0, 10_001, 1_000))]
    assert sum(tenths) == 10_000
    assert 900 < min(tenths) <= max(tenths) < 1_100
