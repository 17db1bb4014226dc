"""Applying a file: what it makes, that a second time changes nothing, and what it never touches."""

import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from broker_project.config.apply import apply_file
from jobs.models import JobType
from pool import transitions as operated
from pool.models import Pool, Resource, UpstreamAccount
from tenants.models import Tenant
from tests.config.conftest import GONE, Apply
from tests.factories import at, money

pytestmark = pytest.mark.django_db
CLIP, A1, POOL = "job_types.clip", "pools.video.accounts.a1", "pools.video"
MICRO = 1_000_000


def sessions(account: str = "a1") -> list[tuple[int, bool]]:
    return list(Resource.objects.filter(account__name=account).order_by("number").values_list("number", "accepting"))


def test_a_file_makes_all_it_declares(apply: Apply) -> None:
    said = apply(
        (f"{POOL}.order", "fifo"),
        (f"{POOL}.cooldown", "2s"),
        (f"{A1}.labels", {"region": "eu"}),
        (f"{CLIP}.retry", {"attempts": 5, "first": "1s", "max": "5m", "within": "1h"}),
        (f"{CLIP}.max_payload", "1kB"),
        (f"{CLIP}.start_deadline", "1h"),
        ("tenants.acme.pools", {"video": {"max_running": 2, "window": 4}}),
        ("tenants.acme.prices", {"clip": "0.8 * price"}),
    )
    assert "create   pool video" in said
    assert "create   account video/a1" in said
    pool, account = Pool.objects.get(), UpstreamAccount.objects.get()
    job_type, tenant = JobType.objects.get(), Tenant.objects.get()
    assert (pool.order, pool.cooldown_ms, pool.window, pool.accepting) == ("fifo", 2000, 10, True)
    assert pool.upstream["adapter"] == "http"
    assert (account.sessions, account.credential, account.labels) == (2, "secret-of-a1", {"region": "eu"})
    assert sessions() == [(1, True), (2, True)]
    assert (job_type.pool, job_type.max_runtime_ms, job_type.start_deadline_ms) == (pool, 300_000, 3_600_000)
    assert (job_type.max_payload_bytes, job_type.version, job_type.accepting) == (1000, 1, True)
    assert job_type.retry == {"attempts": 5, "first_ms": 1000, "max_ms": 300_000, "within_ms": 3_600_000}
    assert job_type.upstream["mode"] == "sync"
    assert (tenant.limit("video", "max_running"), tenant.limit("video", "window")) == (2, 4)
    assert money(tenant) == (100 * MICRO, 0)


def test_a_second_time_changes_nothing(apply: Apply) -> None:
    apply()
    before = list(JobType.objects.values())
    said = apply()
    assert said == "unchanged pool: 1, account: 1, job type: 1, tenant: 1\nnothing to change\n"
    assert list(JobType.objects.values()) == before


def test_a_dry_run_stores_nothing(apply: Apply) -> None:
    said = apply(dry_run=True)
    assert "create   tenant acme" in said
    assert said.endswith("dry run: nothing was stored\n")
    assert not Pool.objects.exists()
    assert not Tenant.objects.exists()


def test_a_change_is_shown_field_by_field(apply: Apply) -> None:
    apply()
    said = apply(
        (f"{CLIP}.price", "12"),
        (f"{CLIP}.upstream.submit.timeout", "30s"),
        (f"{POOL}.window", 5),
        (f"{POOL}.rate_limit", "600/minute"),
    )
    assert "  price: 10 + 2 * payload.seconds -> 12\n" in said
    assert "  upstream.submit.timeout: none -> 30s\n" in said
    assert "  window: none -> 5\n" in said
    assert "  rate_limit: none -> 600/minute\n" in said
    assert "warning: pools.video.rate_limit is accepted but not enforced yet\n" in said
    assert "unchanged account: 1, tenant: 1\n" in said
    assert JobType.objects.get().version == 2


def test_what_someone_else_changed_is_put_right(apply: Apply) -> None:
    apply()
    Pool.objects.update(window=99)
    assert "  window: 99 -> 10\n" in apply()
    assert Pool.objects.get().window == 10


def test_a_credential_is_sealed_and_never_shown(apply: Apply, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.DEBUG = True
    said = apply((f"{A1}.credential", "literal-with-debug"))
    assert UpstreamAccount.objects.get().credential == "literal-with-debug"
    said += apply()
    assert "credential: changed" in said
    monkeypatch.setenv("A1", "rotated")
    said += apply()
    assert UpstreamAccount.objects.get().credential == "rotated"
    with connection.cursor() as cursor:
        cursor.execute("SELECT a::text || p::text FROM pool_upstreamaccount a, pool_pool p")
        stored = cursor.fetchone()[0]
    for secret in ("literal-with-debug", "secret-of-a1", "rotated"):
        assert secret not in said + stored


def test_a_credential_may_stand_in_a_file(apply: Apply, tmp_path: Path) -> None:
    (tmp_path / "a1").write_text("from-a-file\n")
    apply((f"{A1}.credential", {"file": str(tmp_path / "a1")}))
    assert UpstreamAccount.objects.get().credential == "from-a-file"


def test_sessions_grow_and_shrink_from_the_end(apply: Apply) -> None:
    apply((f"{A1}.sessions", 3))
    Resource.objects.filter(number=1).update(accepting=False)  # drained by hand
    apply((f"{A1}.sessions", 1))
    assert sessions() == [(1, False), (2, False), (3, False)]
    apply((f"{A1}.sessions", 4))
    assert sessions() == [(1, False), (2, True), (3, True), (4, True)]


def test_what_an_operator_drained_stays_so_however_the_file_grows(apply: Apply) -> None:
    apply()
    operated.drain(list(Resource.objects.values_list("pk", flat=True)), "planned work")
    apply((f"{A1}.sessions", 1))
    apply((f"{A1}.sessions", 3))
    assert sessions() == [(1, False), (2, False), (3, False)]


def test_an_account_that_was_taken_away_gets_no_live_session(apply: Apply) -> None:
    apply()
    operated.disable(list(Resource.objects.values_list("pk", flat=True)), "banned")
    apply((f"{A1}.sessions", 3))
    assert set(Resource.objects.values_list("state", "note")) == {("offline", "banned")}


def test_occupancy_is_never_touched(apply: Apply) -> None:
    apply((f"{CLIP}.price", "1"))
    job = at("processing", JobType.objects.get(), Tenant.objects.get())
    occupied = Resource.objects.filter(job_id=job.id)
    before = occupied.values("state", "fence", "job_id", "used_at", "version").get()
    apply((f"{CLIP}.price", "1"), (f"{A1}.sessions", 0))
    assert occupied.get().accepting is False
    assert occupied.values("state", "fence", "job_id", "used_at", "version").get() == before


def test_what_left_the_file_is_left_alone(apply: Apply) -> None:
    apply()
    said = apply(("tenants", {}), (f"{CLIP}", GONE), (f"{POOL}.accounts", {}))
    for title in ("account video/a1", "job type clip", "tenant acme"):
        assert f"{title} is not in the file, left alone" in said
    assert said.endswith("nothing to change\n")
    assert sessions() == [(1, True), (2, True)]
    assert Tenant.objects.get().accepting
    assert JobType.objects.get().accepting


def test_prune_drains_what_left_the_file_and_a_return_opens_it(apply: Apply) -> None:
    apply()
    said = apply(("pools", {}), ("job_types", {}), ("tenants", {}), prune=True)
    assert said.count("drain ") == 4
    assert not Pool.objects.get().accepting
    assert not JobType.objects.get().accepting
    assert not Tenant.objects.get().accepting
    assert sessions() == [(1, False), (2, False)]
    assert apply(("pools", {}), ("job_types", {}), ("tenants", {}), prune=True).endswith("nothing to change\n")
    apply()
    assert Pool.objects.get().accepting
    assert JobType.objects.get().accepting
    assert Tenant.objects.get().accepting
    assert sessions() == [(1, True), (2, True)]


def test_the_opening_grant_is_booked_once(apply: Apply) -> None:
    apply()
    said = apply(("tenants.acme.credits", 500))
    assert "booked once as 100; 500 is not granted again" in said
    assert money(Tenant.objects.get()) == (100 * MICRO, 0)


def test_a_tenant_without_a_grant_has_a_wallet(apply: Apply) -> None:
    apply(("tenants.acme.credits", GONE))
    assert money(Tenant.objects.get()) == (0, 0)


def test_a_call_never_outlasts_max_runtime(apply: Apply) -> None:
    apply((f"{CLIP}.max_runtime", "20s"))
    assert JobType.objects.get().upstream["submit"]["timeout"] == "20000ms"
    assert "timeout" not in JobType.objects.get().declared["upstream"]["submit"]


@pytest.mark.parametrize(
    ("place", "value", "warning"),
    [
        (f"{CLIP}.requires", {"region": "'eu'"}, "clip.requires is accepted, but this job type cannot take jobs yet"),
        (f"{CLIP}.sessions", 2, "clip.sessions above 1 is accepted, but this job type cannot take jobs yet"),
        (f"{CLIP}.upstream.mode", "lease", "clip.upstream.mode lease is accepted, but this job type cannot take jobs"),
    ],
)
def test_what_cannot_be_ignored_safely_closes_the_job_type(apply: Apply, place: str, value: Any, warning: str) -> None:
    assert warning in apply((place, value))
    assert not JobType.objects.get().accepting
    apply()
    assert JobType.objects.get().accepting


def test_an_account_with_tokens_to_refresh_offers_no_session(apply: Apply) -> None:
    refresh = {"url": "http://127.0.0.1:1/token", "body": "{'secret': 'xyz'}", "every": "1h"}
    said = apply((f"{A1}.refresh", refresh))
    assert "a1.refresh is accepted, but this account cannot take jobs yet" in said
    assert sessions() == []
    assert "xyz" not in str(UpstreamAccount.objects.get().declared)


def test_like_warnings_are_one_line(apply: Apply) -> None:
    said = apply((f"{A1}.strangers", 5), (f"{POOL}.accounts.a2", {"credential": {"env": "A2"}, "strangers": 5}))
    assert said.count("warning:") == 1
    assert "strangers is accepted but not enforced yet (and 1 like it)" in said


@pytest.mark.django_db(transaction=True)
def test_two_applies_at_once_make_one(apply: Apply, tmp_path: Path) -> None:
    apply(dry_run=True)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with (tmp_path / "out").open("a") as out:
                apply_file(tmp_path / "broker.yaml", False, False, out)
        except BaseException as error:  # noqa: BLE001  shown by the assertion below
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sessions() == [(1, True), (2, True)]
    assert money(Tenant.objects.get()) == (100 * MICRO, 0)
