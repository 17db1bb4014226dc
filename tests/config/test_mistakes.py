"""Each mistake in a file is named by its place; all are told at once, and then nothing is stored."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command

from broker_project.config.findings import ConfigRefused
from broker_project.config.kinds import A_TEXT
from jobs.models import JobType
from pool.models import Pool, ResourceMove
from statemachine.actors import at_the_shell
from tenants.models import Tenant
from tests.config.conftest import GONE, Apply, small

pytestmark = pytest.mark.django_db
CLIP, SUBMIT, A1, POOL = "job_types.clip", "job_types.clip.upstream.submit", "pools.video.accounts.a1", "pools.video"

MISTAKES: list[tuple[str, Any, str]] = [
    # names
    ("tennants", {}, "tennants: is not known here; did you mean tenants?"),
    (f"{POOL}.windw", 3, "pools.video.windw: is not known here; did you mean window?"),
    (f"{A1}.session", 1, "a1.session: is not known here; did you mean sessions?"),
    (f"{SUBMIT}.url", "'/x'", "job_types.clip.upstream.submit.url: is not known here"),
    ("pools. video ", {}, "a name has 1 to 100 printable characters"),
    # types and bounds
    ("pools", [], "pools: is a map of names; this is a list"),
    (POOL, "x", "pools.video: is a map with"),
    (f"{POOL}.order", "random", "pools.video.order: is one of fair, fifo; this is 'random'"),
    (f"{POOL}.window", 0, "pools.video.window: is a whole number from 1"),
    (f"{POOL}.window", True, "pools.video.window: is a whole number"),
    (f"{A1}.sessions", -1, "a1.sessions: is a whole number from 0"),
    (f"{A1}.sessions", 1.5, "a1.sessions: is a whole number"),
    (f"{A1}.credits", -5, "a1.credits: is a number from 0"),
    (f"{A1}.strangers", -1, "a1.strangers: is a whole number"),
    ("tenants.acme.share", 0, "tenants.acme.share: is a number above 0"),
    ("tenants.acme.credits", -1, "tenants.acme.credits: is a number from 0"),
    ("tenants.acme.credits", "100", "tenants.acme.credits: is a number"),
    ("tenants.acme.billing", "invoice", "tenants.acme.billing: is one of credits, none"),
    ("tenants.acme.max_running", -1, "tenants.acme.max_running: is a whole number"),
    ("tenants.acme.require_idempotency_key", "no", "is true or false"),
    ("tenants.acme.budgets", {"day": -1}, "tenants.acme.budgets.day: is a number"),
    (f"{CLIP}.overrun", "forgive", "job_types.clip.overrun: is one of absorb, debt"),
    (f"{CLIP}.retry", {"attempts": 0}, "job_types.clip.retry.attempts: is a whole number from 1"),
    (f"{CLIP}.weight", 0, "job_types.clip.weight: is a number above 0"),
    (f"{CLIP}.delivery", "exactly_once", "job_types.clip.delivery: is one of"),
    (f"{SUBMIT}.idempotent", "yes", "job_types.clip.upstream.submit.idempotent: is true or false"),
    # durations, sizes, rates
    (f"{POOL}.cooldown", 5, "pools.video.cooldown: 5 is not a duration"),
    (f"{POOL}.cooldown", "90d", "pools.video.cooldown: is from 0ms to 24d"),
    (f"{CLIP}.max_runtime", "5 minutes", "job_types.clip.max_runtime: '5 minutes' is not a duration"),
    (f"{CLIP}.max_runtime", "0s", "job_types.clip.max_runtime: is from 1ms"),
    (f"{CLIP}.start_deadline", "-1h", "job_types.clip.start_deadline: '-1h' is not a duration"),
    (f"{CLIP}.max_payload", "256", "job_types.clip.max_payload: '256' is not a size"),
    (f"{POOL}.rate_limit", "600", "pools.video.rate_limit: '600' is not a rate"),
    ("tenants.acme.submit_rate", "0/second", "tenants.acme.submit_rate: '0/second' is not a rate"),
    (f"{A1}.rates", {"tokens": {"cost": "1"}}, "a1.rates.tokens.limit: is required"),
    (f"{POOL}.balance", {"path": "'/x'"}, "pools.video.balance.value: is required: the number of credits"),
    (f"{POOL}.balance", {"value": "1"}, "pools.video.balance.path: is required"),
    (f"{POOL}.balance", {"path": "'/x'", "value": "1", "every": "5s"}, "pools.video.balance.every: is from 60000ms"),
    (f"{POOL}.balance", {"path": "'/x'", "value": "1", "timeout": "1m"}, "pools.video.balance.timeout: is from 1ms"),
    (f"{POOL}.balance", {"path": "'/x'", "value": "1", "most": -1}, "pools.video.balance.most: is a number from 0"),
    (
        f"{POOL}.balance",
        {"path": "'/x'", "value": "payload.x"},
        "pools.video.balance.value: there is no 'payload' here",
    ),
    (f"{POOL}.balance", {"path": "job.id", "value": "1"}, "pools.video.balance.path: there is no 'job' here"),
    (f"{POOL}.balance", {"path": "'/x'", "value": "1", "often": 1}, "pools.video.balance.often: is not known here"),
    (
        f"{POOL}.balance",
        {"path": "'/x'", "value": "1", "headers": {"X-Key": "job.id"}},
        "pools.video.balance.headers.X-Key: there is no 'job' here",
    ),
    # expressions
    (f"{CLIP}.price", "10 +", "job_types.clip.price: line 1, column"),
    (f"{CLIP}.price", "outcome.units", "job_types.clip.price: there is no 'outcome' here"),
    (f"{CLIP}.price", -1, "job_types.clip.price: is a number from 0"),
    (f"{CLIP}.price", "1 - 2", "job_types.clip.price: a price cannot be negative"),
    (f"{CLIP}.price", "1 / 0", "job_types.clip.price: division by zero"),
    (f"{CLIP}.price", "'ten'", "job_types.clip.price: a price must be a number"),
    (f"{CLIP}.settle", "response.body", "job_types.clip.settle: there is no 'response' here"),
    (f"{CLIP}.requires", {"region": "tenant.name"}, "job_types.clip.requires.region: there is no 'tenant' here"),
    (f"{SUBMIT}.path", "'/run", "job_types.clip.upstream.submit.path: line 1"),
    (f"{SUBMIT}.path", "response.body", "job_types.clip.upstream.submit.path: there is no 'response'"),
    (f"{SUBMIT}.success", "status == 200", "job_types.clip.upstream.submit.success: there is no 'status'"),
    (f"{SUBMIT}.headers", {"X Y": "'z'"}, "submit.headers.X Y: is not a header that may be set"),
    (f"{SUBMIT}.headers", {"Content-Length": "'1'"}, "submit.headers.Content-Length: is not a header"),
    (f"{POOL}.upstream.headers.Authorization", "credential", "headers.Authorization: there is no 'credential' here"),
    (f"{POOL}.probe", {"every": "5m", "healthy": "payload"}, "pools.video.probe.healthy: there is no 'payload' here"),
    ("tenants.acme.prices", {"clip": "held"}, "tenants.acme.prices.clip: there is no 'held' here"),
    (f"{CLIP}.upstream.poll", {"success": "respons.x"}, "clip.upstream.poll.success: there is no 'respons' here"),
    (f"{CLIP}.upstream.poll", {"headers": {"X": "response"}}, "poll.headers.X: there is no 'response' here"),
    (f"{CLIP}.upstream.find", {"after": "5"}, "clip.upstream.find.after: '5' is not a duration"),
    (f"{CLIP}.upstream.cancel", {"failed": "true"}, "clip.upstream.cancel.failed: is not known here"),
    (f"{CLIP}.upstream.callback", {"confirm": "no"}, "clip.upstream.callback.confirm: is true or false"),
    (f"{CLIP}.upstream.callback", {"path": "'/x'"}, "clip.upstream.callback.path: is not known here"),
    (f"{SUBMIT}.failed", "reference", "submit.failed: there is no 'reference' here"),
    (f"{SUBMIT}.exists", 409, "submit.exists: an expression is a text"),
    (f"{POOL}.poll_rate", "60", "pools.video.poll_rate: '60' is not a rate"),
    (f"{POOL}.upstream.preset", "repliacte", "pools.video.upstream.preset: there is no preset 'repliacte'; known are"),
    # secrets
    (f"{A1}.credential", {"env": "NOT_SET"}, "a1.credential: the environment variable NOT_SET is not set, or empty"),
    (f"{A1}.credential", {"file": "/no/such/file"}, "a1.credential: the file /no/such/file cannot be read"),
    (f"{A1}.credential", {"env": "A1", "file": "x"}, "a1.credential: is {env: NAME} or {file: PATH}"),
    (f"{A1}.credential", "literal", "a1.credential: is written out"),
    (f"{A1}.credential", GONE, "a1.credential: is missing, and the pool's upstream.headers use account.credential"),
    # addresses and adapters
    (f"{POOL}.upstream.base_url", "127.0.0.1:9900", "pools.video.upstream.base_url: is http:// or https://"),
    (f"{POOL}.upstream.base_url", "http://u:p@host", "pools.video.upstream.base_url: has a user or password in it"),
    (f"{POOL}.upstream.base_url", GONE, "pools.video.accounts.a1.base_url: is required"),
    (
        f"{POOL}.upstream.adapter",
        "carrier-pigeon",
        "pools.video.upstream.adapter: there is no adapter 'carrier-pigeon'",
    ),
    (f"{POOL}.upstream", GONE, "pools.video.upstream: is required"),
    # what must be said
    (f"{CLIP}.max_runtime", GONE, "job_types.clip.max_runtime: is required"),
    (f"{CLIP}.price", GONE, "job_types.clip.price: is required"),
    (f"{CLIP}.pool", GONE, "job_types.clip.pool: is required"),
    (f"{CLIP}.pools", ["video"], "job_types.clip.pool: is required: one of pool"),
    (f"{CLIP}.upstream", GONE, "job_types.clip.upstream: is required"),
    (f"{SUBMIT}.path", GONE, "job_types.clip.upstream.submit.path: is required"),
    (f"{CLIP}.upstream.mode", "poll", "job_types.clip.upstream.poll.path: is required in mode poll"),
    (f"{CLIP}.upstream.mode", "poll", "job_types.clip.upstream.poll.success: is required"),
    (f"{CLIP}.upstream.mode", "poll", "job_types.clip.upstream.submit.reference: is required in mode poll"),
    (f"{CLIP}.upstream.mode", "callback", "clip.upstream.submit: sends no callback_url, which mode callback needs"),
    (f"{CLIP}.upstream.mode", "callback", "clip.upstream.mode: callback needs the setting PUBLIC_URL"),
    (f"{CLIP}.upstream.mode", "callback", "clip.upstream.callback.success: is required, here or in poll"),
    (f"{CLIP}.upstream.poll", {"success": "true"}, "clip.upstream.poll.path: is required where poll is declared"),
    (f"{CLIP}.upstream.find", {"missing": "true"}, "job_types.clip.upstream.find.path: is required"),
    (f"{CLIP}.upstream.find", {"path": "'/x'"}, "job_types.clip.upstream.find.success: is required, here or in poll"),
    (f"{CLIP}.upstream.cancel", {"method": "POST"}, "job_types.clip.upstream.cancel.path: is required"),
    # what does not fit together
    (f"{CLIP}.pool", "audio", "job_types.clip.pool: there is no pool 'audio'"),
    (f"{CLIP}.delivery", "at_least_once", "job_types.clip.delivery: at_least_once needs"),
    (f"{SUBMIT}.timeout", "6m", "job_types.clip.upstream.submit.timeout: is longer than max_runtime"),
    (
        f"{SUBMIT}",
        {"path": "'/run'", "idempotent": True},
        "submit.idempotent: true means that the upstream deduplicates",
    ),
    ("tenants.acme.job_types", ["clap"], "tenants.acme.job_types.0: there is no job type 'clap'"),
    ("tenants.acme.prices", {"clap": "price"}, "tenants.acme.prices.clap: there is no job type 'clap'"),
    ("tenants.acme.pools", {"audio": {}}, "tenants.acme.pools.audio: there is no pool 'audio'"),
    # payload schemas
    (f"{CLIP}.payload_schema", [], "job_types.clip.payload_schema: is a JSON Schema, a map"),
    (f"{CLIP}.payload_schema", {"type": "objekt"}, "job_types.clip.payload_schema.type: is not JSON Schema"),
    (f"{CLIP}.payload_schema", {"$ref": "#/$defs/x"}, "payload_schema: refers to '#/$defs/x', which is not there"),
    (f"{CLIP}.payload_schema", {"$ref": "http://x/y"}, "payload_schema: refers to 'http://x/y'; only what stands"),
    (f"{CLIP}.payload_schema", {"$ref": "#"}, "payload_schema: refers to itself without an end"),
]


@pytest.mark.parametrize(("place", "value", "message"), MISTAKES)
def test_a_mistake_is_named_by_its_place(apply: Apply, settings: Any, place: str, value: Any, message: str) -> None:
    settings.DEBUG = False
    with pytest.raises(ConfigRefused) as refused:
        apply((place, value))
    assert any(message in error for error in refused.value.errors), refused.value.errors
    assert not Pool.objects.exists()
    assert not JobType.objects.exists()
    assert not Tenant.objects.exists()


def test_all_mistakes_are_told_at_once(apply: Apply) -> None:
    with pytest.raises(ConfigRefused) as refused:
        apply((f"{POOL}.windw", 1), (f"{CLIP}.price", "10 +"), (f"{CLIP}.pool", "audio"), ("tenants.acme.share", 0))
    assert [error.partition(":")[0] for error in refused.value.errors] == [
        "pools.video.windw",
        "job_types.clip.price",
        "tenants.acme.share",
        "job_types.clip.pool",
    ]


@pytest.mark.parametrize(
    ("place", "written"),
    [
        (f"{SUBMIT}.path", "/jobs"),
        (f"{SUBMIT}.path", "/jobs/${id}?x=1"),
        (f"{SUBMIT}.path", "https://provider.example/jobs"),
        (f"{SUBMIT}.path", "v1/jobs"),
        (f"{SUBMIT}.body", "hello world"),
        (f"{SUBMIT}.headers.X-Kind", "application/json"),
        (f"{SUBMIT}.headers.X-Kind", "Bearer sk-1"),
        (f"{POOL}.upstream.headers.X-Kind", "Bearer sk-1"),
    ],
)
def test_a_text_without_quotes_of_its_own_is_told_in_one_line(apply: Apply, place: str, written: str) -> None:
    with pytest.raises(ConfigRefused) as refused:
        apply((place, written))
    assert refused.value.errors == [f"{place}: {A_TEXT}"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("payload.id +", "line 1, column 13"),
        ("payloda.id", "no 'payloda' here"),
        ("payload.a / payloda.b", "'payloda'"),
    ],
)
def test_another_mistake_in_an_expression_is_told_as_such(apply: Apply, wrong: str, said: str) -> None:
    with pytest.raises(ConfigRefused, match=said):
        apply((f"{SUBMIT}.body", wrong))


@pytest.mark.parametrize(
    "changes",
    [
        [(f"{SUBMIT}.path", 5)],
        [(f"{CLIP}.upstream.mode", "poll"), (f"{SUBMIT}.reference", "response."), ("poll", "'/x'", "true")],
        [(f"{CLIP}.upstream.mode", "poll"), (f"{SUBMIT}.reference", "'x'"), ("poll", "'/x'", "response.")],
        [(f"{CLIP}.upstream.mode", "poll"), (f"{SUBMIT}.reference", "'x'"), ("poll", "/x", "true")],
        [("find", "/x", "true")],
        [("find", "'/x'", "response.")],
        [(f"{CLIP}.upstream.cancel", {"path": "/x"})],
        [(f"{SUBMIT}.idempotent", True), (f"{SUBMIT}.headers.Idempotency-Key", "dispatch_key +")],
        [(f"{CLIP}.delivery", "at_least_once"), (f"{SUBMIT}.idempotent", "yes")],
        [(f"{POOL}.upstream.base_url", "provider.example")],
        [(f"{A1}.credential", "sk-1")],
        [(f"{CLIP}.pool", 5)],
        [(f"{CLIP}.upstream", "x")],
    ],
)
def test_what_is_there_and_refused_is_not_said_to_be_missing_too(apply: Apply, changes: list[Any]) -> None:
    written = [
        (f"{CLIP}.upstream.{each[0]}", {"path": each[1], "success": each[2]}) if len(each) == 3 else each
        for each in changes
    ]
    with pytest.raises(ConfigRefused) as refused:
        apply(*written)
    assert len(refused.value.errors) == 1, refused.value.errors


def test_the_command_prints_all_and_fails(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text(yaml.safe_dump(small((f"{CLIP}.price", GONE), (f"{POOL}.window", 0))))
    with pytest.raises(
        CommandError, match=r"(?s)not applied, 2 mistakes:.*pools\.video\.window.*job_types\.clip\.price"
    ):
        call_command("apply", str(path))


def test_who_applied_a_file_stands_at_what_it_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A1", "sk-1")
    path = tmp_path / "broker.yaml"
    for sessions in (2, 1):
        path.write_text(yaml.safe_dump(small((f"{A1}.sessions", sessions))))
        call_command("apply", str(path))
    assert {(move.cause, move.actor) for move in ResourceMove.objects.all()} == {("apply", at_the_shell())}


def test_a_wrong_secret_is_not_shown(apply: Apply, settings: Any) -> None:
    settings.DEBUG = False
    with pytest.raises(ConfigRefused) as refused:
        apply((f"{A1}.credential", "sk-very-secret"))
    assert "sk-very-secret" not in str(refused.value)


def test_a_stored_pool_may_be_referred_to_unless_it_is_pruned(apply: Apply) -> None:
    apply()
    apply(("pools", GONE))
    with pytest.raises(ConfigRefused, match="there is no pool 'video'"):
        apply(("pools", GONE), prune=True)
