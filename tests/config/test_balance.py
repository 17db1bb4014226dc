"""How a pool's accounts are asked what they have left: stored with the pool, compiled when it is applied."""

import pytest

from pool.models import Pool
from tests.config.conftest import Apply
from upstream.balances import compile_balance

pytestmark = pytest.mark.django_db
BALANCE, CREDITS = "pools.video.balance", "pools.video.accounts.a1.credits"
ASKED = {"path": "'/account'", "value": "response.body.balance"}


def stored() -> dict[str, object]:
    return dict(Pool.objects.get().upstream["balance"])


def test_it_is_stored_with_the_pool_and_can_be_asked(apply: Apply) -> None:
    apply(
        (BALANCE, {**ASKED, "method": "POST", "body": "{'a': 1}", "timeout": "3s", "every": "1h", "most": 2.5}),
        (CREDITS, 9),
    )
    assert stored() == {
        **ASKED, "method": "POST", "body": "{'a': 1}", "timeout": "3000ms", "every_ms": 3_600_000, "most": 2_500_000,
    }  # fmt: skip
    compiled = compile_balance(Pool.objects.get().upstream)
    assert (compiled.method, compiled.timeout_ms, [name for name, _ in compiled.headers]) == (
        "POST",
        3000,
        ["Authorization"],
    )


def test_what_is_left_out_has_its_default(apply: Apply) -> None:
    apply((BALANCE, ASKED), (CREDITS, 9))
    assert stored() == {**ASKED, "every_ms": 900_000, "most": None}
    compiled = compile_balance(Pool.objects.get().upstream)
    assert (compiled.method, compiled.timeout_ms) == ("GET", 10_000)


def test_a_change_is_told_once_and_a_second_time_there_is_none(apply: Apply) -> None:
    apply((CREDITS, 9))
    assert "balance" not in Pool.objects.get().upstream
    said = apply((BALANCE, ASKED), (CREDITS, 9))
    assert said.count("balance: none ->") == 1
    assert "upstream.balance" not in said
    assert "nothing to change" in apply((BALANCE, ASKED), (CREDITS, 9))
    assert "balance.every: none -> 1h" in apply((BALANCE, {**ASKED, "every": "1h"}), (CREDITS, 9))
    apply((CREDITS, 9))
    assert "balance" not in Pool.objects.get().upstream


def test_a_header_of_every_call_that_needs_a_job_is_named_with_the_way_out(apply: Apply) -> None:
    job = ("pools.video.upstream.headers.X-Job", "job.id")
    with pytest.raises(
        Exception, match=r"pools.video.upstream: headers.X-Job: .*balance.headers may name the header too"
    ):
        apply((BALANCE, ASKED), (CREDITS, 9), job)
    apply((BALANCE, {**ASKED, "headers": {"X-Job": None}}), (CREDITS, 9), job)


def test_asking_nobody_is_warned_of(apply: Apply) -> None:
    assert "pools.video.balance asks nobody: no account of this pool says its credits" in apply((BALANCE, ASKED))
