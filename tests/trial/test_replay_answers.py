"""`replay_answers`: recorded answers through the stored mappings, against what somebody expects of them."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command

from tests import factories

pytestmark = pytest.mark.django_db
UPSTREAM = {
    "mode": "poll",
    "submit": {"path": "'/tasks'", "reference": "response.body.id", "exists": "response.status == 409"},
    "poll": {
        "path": "'/tasks/' + reference",
        "running": "response.body.status == 'running'",
        "success": "response.body.status == 'done'",
        "failed": "response.body.status == 'failed'",
        "progress": "response.body.progress",
        "result": "response.body.output",
        "units": "response.body.units",
        "error": "response.body.error",
    },
    "find": {"path": "'/find?key=' + dispatch_key", "reference": "response.body.id"},
    "cancel": {"path": "'/stop/' + reference", "success": "response.body.status == 'cancelled'"},
    "callback": {"reference": "response.body.id"},
}
DONE = {"id": "t1", "status": "done", "output": [1, 2], "units": 3}


@pytest.fixture(autouse=True)
def _clip() -> None:
    factories.make_job_type(factories.make_pool(), name="clip", upstream=UPSTREAM)


def replay(tmp_path: Path, answers: Any, name: str = "answers.yaml") -> tuple[str, bool]:
    """What it printed, and whether something was not as expected."""
    path = tmp_path / name
    path.write_text(answers if isinstance(answers, str) else yaml.safe_dump(answers))
    out = io.StringIO()
    try:
        call_command("replay_answers", str(path), stdout=out, no_color=True)
    except CommandError as error:
        return f"{out.getvalue()}{error}", True
    return out.getvalue(), False


def of(action: str, body: Any = None, status: int | None = 200, **fields: Any) -> dict[str, Any]:
    return {"type": "clip", "action": action, "body": body, **({} if status is None else {"status": status}), **fields}


AS_EXPECTED: list[dict[str, Any]] = [
    of("submit", {"id": "t1"}, 202, expect={"verdict": "running", "reference": "t1", "over": False}),
    of("submit", {"id": ""}, 202, expect={"verdict": "unknown", "error_code": "empty_reference"}),
    of("submit", {}, 422, expect={"verdict": "not_executed", "over": True, "error_class": "rejected"}),
    of("submit", {}, 422, repeat=True, expect={"verdict": "unknown", "over": False}),
    of("submit", {"id": "t7"}, 409, repeat=True, expect={"verdict": "goes on", "reference": "t7"}),
    of("submit", None, None, no_answer="timeout", expect={"verdict": "unknown", "error_code": "timeout"}),
    of("submit", None, None, no_answer="connect_failed", expect="not_executed"),
    of("poll", {"status": "running", "progress": 0.5}, expect={"verdict": "running", "progress": 0.5}),
    of("poll", DONE, expect={"verdict": "succeeded", "units": 3, "result": [1, 2]}),
    of("poll", {"status": "failed", "error": "no"}, expect={"verdict": "failed", "over": True}),
    of("poll", {"status": "THROTTLED"}, expect={"verdict": "unknown", "error_code": "unknown_answer"}),
    of(
        "poll",
        '{"status": "do',
        headers={"Content-Type": "application/json"},
        expect={"error_code": "unreadable_answer"},
    ),
    of("poll", "Bad Gateway", 502, headers={"Content-Type": "text/html"}, expect={"error_class": "transient"}),
    of("poll", {}, 404, expect={"verdict": "unknown", "error_code": "http_404"}),
    of("find", {}, 404, expect={"verdict": "not_executed", "over": True, "error_code": "missing"}),
    of("find", DONE, expect={"verdict": "succeeded", "reference": "t1"}),
    of("cancel", {"status": "cancelled"}, expect={"verdict": "failed", "error_code": "cancelled"}),
    of("cancel", {"status": "stopping"}, 202, expect="running"),
    of("callback", DONE, None, expect="succeeded"),
    of("callback", DONE, None, reference="t2", expect={"verdict": "unknown", "error_code": "other_reference"}),
]


def test_recorded_answers_are_read_as_expected(tmp_path: Path) -> None:
    said, wrong = replay(tmp_path, AS_EXPECTED)
    assert not wrong, said
    assert said.count("  ok  ") == len(AS_EXPECTED)


def test_a_line_for_each_says_what_is_concluded(tmp_path: Path) -> None:
    said, _ = replay(tmp_path, [of("poll", DONE, reference="t1"), of("submit", None, None, no_answer="cut")])
    heading, first, second = said.splitlines()
    assert heading.split() == ["#", "type", "action", "came", "concluded"]
    assert first.split()[:4] == ["1", "clip", "poll", "200"]
    assert first.endswith("  succeeded, session over, reference t1, units 3, result of 6 bytes")
    assert second.startswith("2  clip  submit  cut")


@pytest.mark.parametrize(
    ("expect", "why"),
    [
        ("failed", "verdict: 'succeeded', not 'failed'"),
        ({"units": 4}, "units: 3, not 4"),
        ({"over": False, "result": []}, "over: True, not False; result: [1, 2], not []"),
    ],
)
def test_a_difference_is_told_and_fails(tmp_path: Path, expect: Any, why: str) -> None:
    said, wrong = replay(tmp_path, [of("poll", DONE), of("poll", DONE, expect=expect)])
    assert wrong
    assert "DIFFERS" in said
    assert why in said
    assert said.endswith("1 of 2 answers is not read as expected")


def test_json_by_lines_is_read_too(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(line) for line in AS_EXPECTED) + "\n\n"
    said, wrong = replay(tmp_path, lines, "answers.jsonl")
    assert not wrong, said


def test_what_is_not_declared_is_an_error(tmp_path: Path) -> None:
    factories.make_job_type(factories.make_pool(), name="plain")
    said, wrong = replay(tmp_path, [{**of("poll", DONE), "type": "plain"}])
    assert wrong
    assert "ERROR  poll: is not declared" in said


def test_a_preset_is_part_of_the_mapping(tmp_path: Path) -> None:
    pool = factories.make_pool(upstream={"adapter": "http", "preset": "runpod"})
    factories.make_job_type(pool, name="render", upstream={"mode": "poll"})
    body = {"id": "t1", "status": "COMPLETED", "output": 1, "executionTime": 2500}
    said, wrong = replay(
        tmp_path, [{**of("poll", body, expect={"verdict": "succeeded", "units": 2.5}), "type": "render"}]
    )
    assert not wrong, said


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ("{", "cannot be read"),
        ("a: 1", 'must be a list of answers (or JSON by lines, in a file named .jsonl), not {"a": 1}'),
        ([1], "answer 1: must be a map of type, action, status"),
        ([of("poll", DONE), {"type": "clip"}], "answer 2: action: must be one of submit, poll"),
        ([of("poke", DONE)], 'find, cancel, callback; this is "poke"'),
        (
            [of("poll", DONE, None)],
            "answer 1: status: must be a number, or no_answer given in its place; this is nothing",
        ),
        ([{**of("poll", DONE), "status": "200"}], "answer 1: status: must be a number, or no_answer"),
        ([of("poll", DONE, stats=1)], "answer 1: stats: is not known (did you mean status?)"),
        ([of("poll", DONE, headers=[1])], "answer 1: headers: must be a map; this is [1]"),
        ([of("poll", DONE, repeat="yes")], 'answer 1: repeat: must be true or false; this is "yes"'),
        ([of("poll", DONE, expect="done")], "answer 1: expect: must be one of running, succeeded"),
        ([of("poll", DONE, expect={"verdict": 1})], "not_executed, unknown; this is 1"),
        ([of("poll", DONE, expect={"unit": 1})], "answer 1: expect.unit: is not known (did you mean units?)"),
        ([of("poll", DONE, expect=[1])], "answer 1: expect: must be a verdict, or a map of verdict"),
        ([of("poll", no_answer="gone")], "answer 1: no_answer: must be one of connect_failed"),
        ([{**of("poll", DONE), "type": "clap"}], 'a job type that is stored (did you mean clip?); this is "clap"'),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, answers: Any, why: str) -> None:
    said, wrong = replay(tmp_path, answers)
    assert wrong
    assert why in said


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    """Also a type that is not stored beside a verdict that is none."""
    answers = [
        {**of("poll", DONE, expect="done"), "type": "clap"},
        of("poll", DONE),
        of("pol", expect={"verdict": "x"}),
    ]
    said, wrong = replay(tmp_path, answers)
    assert wrong
    places = [line.rpartition(": must")[0] for line in said.splitlines()]
    assert places == ["answer 1: type", "answer 1: expect", "answer 3: action", "answer 3: expect.verdict"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("replay_answers", str(tmp_path / "none.yaml"))
