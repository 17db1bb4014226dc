"""Whatever an upstream answers, and whatever is declared: what is concluded keeps to the rules. Bodies are Hypothesis' own."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.upstream.calling import call_of
from upstream.answer import Answer
from upstream.calls import Outcome
from upstream.replaying import Recorded, replayed

WORDS = st.sampled_from(["queued", "running", "done", "partial", "failed", "cancelled", "THROTTLED", "", None, 7])
LEAVES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)
TASKS = st.fixed_dictionaries(
    {"status": WORDS},
    optional=dict.fromkeys(("id", "output", "units", "cost", "progress", "error", "errors", "code"), JSON),
)
BODIES = TASKS | JSON
STATUSES = st.sampled_from([200, 201, 202, 204, 301, 400, 401, 402, 403, 404, 409, 422, 429, 500, 502, 503, 504])
ANSWERS = st.builds(Answer, STATUSES, st.just({}), BODIES, st.sampled_from([True, True, True, False]))
CONDITIONS = st.sampled_from(
    [
        "response.status == 200",
        "response.body.status in ['queued', 'running']",
        "response.body.status == 'done'",
        "response.body.status == 'failed'",
        "has(response.body.error)",
        "size(response.body.output) > 0",
        "response.body.status",
        "true",
        "false",
        None,
    ]
)
VALUES = {
    "result": "response.body.output",
    "units": "response.body.units",
    "cost": "response.body.cost",
    "error": "response.body.error",
}
SUBMITS = st.fixed_dictionaries(
    {
        "path": st.just("'/'"),
        "reference": st.just("response.body.id"),
        **{k: st.sampled_from([v, None]) for k, v in VALUES.items()},
    },
    optional=dict.fromkeys(("success", "partial", "failed", "exists", "rejected", "busy", "not_executed"), CONDITIONS),
)
FOLLOWS = st.fixed_dictionaries(
    {
        "path": st.just("'/'"),
        "progress": st.just("response.body.progress"),
        **{k: st.just(v) for k, v in VALUES.items()},
    },
    optional=dict.fromkeys(("running", "success", "partial", "failed"), CONDITIONS),
)
FINE = range(200, 300)


def conclude(action: Recorded, block: Any, answer: Answer, repeat: bool = False, mode: str = "poll") -> Outcome:
    name = "submit" if action == "submit" else action
    return replayed(action, call_of("", {"mode": mode, name: block}, reference="r1"), answer, repeat)


def keeps_to_the_rules(found: Outcome, answer: Answer) -> None:
    if found.verdict in ("succeeded", "partial"):
        assert found.over
        assert answer.readable
        assert (found.error_code, found.error_class) == ("", "")
    else:
        assert found.result is None
    if found.verdict in ("unknown", "failed", "not_executed"):
        assert found.error_code
        assert found.error_message
        assert not found.reference or found.verdict != "not_executed"
    if found.verdict in ("", "not_executed", "unknown"):
        assert (found.units, found.cost) == (None, None)
    if found.verdict == "":
        assert not found.over
    assert found.progress is None or 0 <= found.progress <= 1
    assert len(found.error_message) <= 300
    assert len(found.reference) <= 500
    for used in (found.units, found.cost):
        assert used is None or 0 <= used <= 1e15


@settings(max_examples=400, deadline=None)
@given(SUBMITS, ANSWERS, st.booleans())
@example({"path": "'/'"}, Answer(200, {}, {"error": "no"}), False)
def test_an_answer_that_is_the_result(block: Any, answer: Answer, repeat: bool) -> None:
    found = conclude("submit", block, answer, repeat, mode="sync")
    keeps_to_the_rules(found, answer)
    assert found.verdict, "nothing goes on that was answered for good"
    if repeat:
        assert found.verdict != "not_executed"
        assert found.over is (found.verdict != "unknown")
    elif found.error_code != "exists":
        assert found.over is (found.verdict != "unknown" or answer.status not in (502, 504))
    if found.verdict == "failed":
        assert block.get("failed"), "nothing is claimed failed that is not declared so"
    if found.verdict == "succeeded" and not block.get("success"):
        assert answer.status in FINE
        assert not (isinstance(answer.body, dict) and (answer.body.get("error") or answer.body.get("errors")))


@settings(max_examples=400, deadline=None)
@given(SUBMITS, ANSWERS, st.booleans(), st.sampled_from(["poll", "callback"]))
def test_an_answer_that_is_a_reference(block: Any, answer: Answer, repeat: bool, mode: str) -> None:
    found = conclude("submit", block, answer, repeat, mode)
    keeps_to_the_rules(found, answer)
    assert found.verdict not in ("succeeded", "partial")
    assert found.over is (found.verdict in ("failed", "not_executed")), "only a refusal, or a declared end, is one"
    assert bool(found.reference) is (found.verdict == "")
    if repeat:
        assert found.verdict != "not_executed"


@settings(max_examples=400, deadline=None)
@given(FOLLOWS, ANSWERS, st.sampled_from(["poll", "find", "callback"]))
@example({"path": "'/'", "error": "response.body.error"}, Answer(200, {}, {"status": "queued", "error": " "}), "poll")
def test_an_answer_to_what_was_asked_later(block: Any, answer: Answer, action: Recorded) -> None:
    if action == "callback":
        block = {name: source for name, source in block.items() if name != "path"}
    found = conclude(action, block, answer)
    keeps_to_the_rules(found, answer)
    assert found.over is (found.verdict not in ("", "unknown"))
    claims = {"": "running", "succeeded": "success", "partial": "partial", "failed": "failed"}
    if found.verdict in claims:
        assert block.get(claims[found.verdict]), "nothing has a default"
        assert answer.readable
    if found.verdict == "not_executed":
        assert (action, answer.status) == ("find", 404)


@settings(max_examples=200, deadline=None)
@given(ANSWERS, CONDITIONS)
def test_an_answer_to_a_cancel(answer: Answer, success: str | None) -> None:
    found = conclude("cancel", {"path": "'/'", "success": success}, answer)
    keeps_to_the_rules(found, answer)
    assert found.verdict in ("", "failed", "unknown")
    assert found.over is (found.verdict == "failed")
    if found.verdict == "failed":
        assert success
        assert answer.readable
    if found.verdict == "":
        assert answer.status in FINE
