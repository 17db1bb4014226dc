"""What the file says of asking the upstream: modes, presets, how often; what is stored, and what is refused as unsafe."""

from typing import Any

import pytest

from broker_project.config.findings import ConfigRefused
from jobs.models import JobType
from pool.models import Pool
from tests.config.conftest import GONE, Apply
from upstream.declared import merged
from upstream.following import compile_poll
from upstream.spec import compile_submit

pytestmark = pytest.mark.django_db
POOL, CLIP = "pools.video", "job_types.clip"
UPSTREAM, SUBMIT = f"{CLIP}.upstream", f"{CLIP}.upstream.submit"
POLL = {"path": "'/tasks/' + reference", "success": "response.body.status == 'done'"}
POLLED = [(f"{UPSTREAM}.mode", "poll"), (f"{UPSTREAM}.poll", POLL), (f"{SUBMIT}.reference", "response.body.id")]
CALLED_BACK: list[tuple[str, Any]] = [
    (f"{UPSTREAM}.mode", "callback"),
    (f"{SUBMIT}.headers", {"X-Hook": "callback_url"}),
    (f"{UPSTREAM}.callback", {"success": "response.body.ok"}),
]


def stored() -> dict[str, Any]:
    job_type = JobType.objects.select_related("pool").get()
    assert job_type.accepting
    return merged(job_type.pool.upstream, job_type.upstream)


def test_a_type_that_is_polled_takes_jobs(apply: Apply) -> None:
    assert "warning" not in apply(*POLLED)
    assert stored()["mode"] == "poll"
    assert compile_poll(stored()).path.source == POLL["path"]


def test_a_poll_may_see_the_reference_in_its_headers(apply: Apply) -> None:
    apply(*POLLED, (f"{UPSTREAM}.poll", {**POLL, "headers": {"X-Task": "reference"}}))
    assert [name for name, _ in compile_poll(stored()).headers] == ["Authorization", "X-Task"]


def test_where_it_can_be_found_a_submit_need_not_name_it(apply: Apply) -> None:
    find = {"path": "'/tasks?key=' + dispatch_key", "reference": "response.body.id", "after": "10s"}
    apply(*POLLED[:2], (f"{UPSTREAM}.find", find))
    assert stored()["find"] == find


def test_a_poll_by_the_dispatch_key_needs_no_reference(apply: Apply) -> None:
    apply(POLLED[0], (f"{UPSTREAM}.poll", {**POLL, "path": "'/tasks?key=' + dispatch_key"}))
    assert stored()["mode"] == "poll"


FAR = (f"{POOL}.upstream.base_url", "https://api.provider.example")
IMAGE = {"properties": {"image": {"properties": {"file": {"type": "string"}}}}}


@pytest.mark.parametrize(
    ("public_url", "why"),
    [
        ("", "that is empty"),
        ("http://localhost:8000", "is an address of this machine or network"),
        ("http://berth.example", "is plain http"),
    ],
)
def test_a_type_whose_upstream_may_not_reach_us_is_warned_of(
    apply: Apply, settings: Any, public_url: str, why: str
) -> None:
    settings.PUBLIC_URL = public_url
    assert "PUBLIC_URL" not in apply(FAR)
    for change in ((f"{CLIP}.payload_schema", IMAGE), (f"{SUBMIT}.body", "{'url': payload.image.url}")):
        said = apply(FAR, change)
        assert "warning: job_types.clip needs PUBLIC_URL, for files, and " in said
        assert why in said
    if public_url:
        assert "needs PUBLIC_URL, for callbacks, and" in apply(FAR, *CALLED_BACK)
        assert "needs PUBLIC_URL" not in apply((f"{POOL}.upstream.base_url", "http://10.0.0.4"), *CALLED_BACK)


def test_a_type_that_is_called_back_takes_jobs(apply: Apply, settings: Any) -> None:
    settings.PUBLIC_URL = "https://berth.example"
    said = apply(*CALLED_BACK)
    assert "callback without poll or find: what a lost callback would have said is never known" in said
    assert stored()["mode"] == "callback"
    assert "warning" not in apply(*CALLED_BACK, (f"{UPSTREAM}.poll", POLL))


@pytest.mark.parametrize(
    "sent",
    [
        (f"{SUBMIT}.path", "'/run?hook=' + callback_url"),
        (f"{SUBMIT}.body", "{'hook': callback_url}"),
        (f"{POOL}.upstream.headers", {"X-Hook": "callback_url"}),
    ],
)
def test_the_callback_address_may_go_anywhere(apply: Apply, settings: Any, sent: tuple[str, Any]) -> None:
    settings.PUBLIC_URL = "https://berth.example"
    apply(*CALLED_BACK, (f"{SUBMIT}.headers", {}), sent)
    assert stored()["mode"] == "callback"


def test_at_least_once_is_served_by_find(apply: Apply) -> None:
    find = {"path": "'/tasks/' + dispatch_key", "success": "response.body.done"}
    assert "warning" not in apply((f"{CLIP}.delivery", "at_least_once"), (f"{UPSTREAM}.find", find))
    assert JobType.objects.get().accepting


def test_how_often_an_account_is_asked_is_kept_with_the_pool(apply: Apply) -> None:
    apply((f"{POOL}.poll_rate", "60/minute"))
    assert Pool.objects.get().upstream["poll_rate"] == [60, 60_000]
    assert "poll_rate: 60/minute -> none" in apply()
    assert "poll_rate" not in Pool.objects.get().upstream
    assert "nothing to change" in apply()


PRESET: list[tuple[str, Any]] = [
    (f"{POOL}.upstream", {"preset": "replicate"}),
    (f"{UPSTREAM}", {"poll": {"every": "9s"}}),
]


def test_a_preset_says_all_that_is_not_said(apply: Apply) -> None:
    assert "warning" not in apply(*PRESET)
    found = stored()
    assert (found["mode"], found["poll"]["every"], found["base_url"]) == ("poll", "9s", "https://api.replicate.com")
    assert compile_submit(found).headers[0][0] == "Authorization"
    assert Pool.objects.get().upstream["base_url"] == "https://api.replicate.com"
    assert "nothing to change" in apply(*PRESET)


def test_what_the_file_says_wins_over_the_preset(apply: Apply) -> None:
    pool = {"preset": "replicate", "base_url": "http://127.0.0.1:1", "headers": {"authorization": "'Token x'"}}
    submit = {"path": "'/v1/models/a/b/predictions'", "headers": {"Prefer": "'respond-async'"}}
    apply((f"{POOL}.upstream", pool), (UPSTREAM, {"submit": submit}))
    found = compile_submit(stored())
    assert (found.path.source, stored()["base_url"]) == (submit["path"], "http://127.0.0.1:1")
    assert {name: source.source for name, source in found.headers} == {
        "authorization": "'Token x'",
        "Prefer": "'respond-async'",
    }
    assert found.reference is not None


def test_a_preset_needs_what_it_cannot_know(apply: Apply) -> None:
    with pytest.raises(ConfigRefused, match=r"clip.upstream.submit.path: is required"):
        apply((f"{POOL}.upstream", {"preset": "fal"}), (UPSTREAM, {"mode": "poll"}))


def test_a_preset_is_refused_where_delivery_would_be_unsafe(apply: Apply) -> None:
    again = (f"{CLIP}.delivery", "at_least_once")
    with pytest.raises(ConfigRefused, match="at_least_once needs"):
        apply(*PRESET, again)
    batch = (f"{POOL}.upstream", {"preset": "openai-batch"})
    apply(batch, PRESET[1], again)  # its find makes it safe
    assert JobType.objects.get().delivery == "at_least_once"


def test_a_preset_of_a_pool_that_is_only_stored_counts_too(apply: Apply) -> None:
    apply(*PRESET)
    assert "nothing to change" in apply(PRESET[1], ("pools", GONE))


def test_the_credential_that_a_preset_uses_must_be_there(apply: Apply) -> None:
    with pytest.raises(ConfigRefused, match=r"a1\.credential: is missing"):
        apply(*PRESET, (f"{POOL}.accounts.a1.credential", GONE))


def test_a_mode_that_is_said_wins_over_the_presets(apply: Apply, settings: Any) -> None:
    settings.PUBLIC_URL = "https://berth.example"
    apply(PRESET[0], (UPSTREAM, {"mode": "callback"}))
    assert (stored()["mode"], JobType.objects.get().upstream["mode"]) == ("callback", "callback")


def test_a_call_of_a_preset_never_outlasts_max_runtime(apply: Apply) -> None:
    apply(*PRESET, (f"{CLIP}.max_runtime", "20s"))
    assert compile_submit(stored()).timeout_ms == 20_000
