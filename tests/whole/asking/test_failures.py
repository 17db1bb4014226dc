"""Every form of failure ends the job, gives the hold back and says why; none is taken for a success, none for silence."""

from typing import Any

import pytest

from tests.whole.asking.world import DEDUPLICATES, POLL, POLLED, World, config, world
from tests.whole.running import Running, simulator, wait_for
from tests.whole.test_stories import credentials

pytestmark = pytest.mark.processes
SYNC = {
    "mode": "sync",
    "submit": {
        "path": "'/run'",
        "headers": {"Idempotency-Key": "dispatch_key"},
        "success": "response.status == 200 && response.body.status == 'done'",
        "units": "response.body.units",
    },
}
FORMS: dict[str, dict[str, Any]] = {
    "failed at the end": {"finish_late": "1s", "fail": {"code": 500, "late": True}},
    "an unknown word": {"status_word": "COMPLETE_WITH_WARNINGS"},
    "an empty reference": {"empty_id": True, "repeats": True},
}


def released(made: World, job: dict[str, Any]) -> None:
    assert job["state"] == "failed"
    assert "" not in (job["error"]["code"], job["error"]["message"]), "the job says why"
    assert job["credits"] == {"held": "0.000000", "charged": "0.000000", "refunded": "0.000000"}
    assert made.client.get("/v1/balance").json()["held"] == "0.000000"


def test_each_form_of_failure_ends_its_job(berth: Running) -> None:
    with world(berth, "forms of failure", POLLED, accounts=len(FORMS)) as made:
        jobs = {name: made.submit(**sim) for name, sim in FORMS.items()}
        ended = {name: made.ended(job_id) for name, job_id in jobs.items()}
        codes = {name: job["error"]["code"] for name, job in ended.items()}
        assert codes["failed at the end"] == "500"
        assert codes["an unknown word"] == codes["an empty reference"] == "outcome_unknown"
        for job in ended.values():
            released(made, job)


def test_a_fine_status_with_an_error_in_it_is_no_success(berth: Running) -> None:
    with world(berth, "an error body", SYNC) as made:
        released(made, made.ended(made.submit(error_body=True)))


@pytest.mark.parametrize("throttled", [True, False])
def test_a_ban_of_the_account_ends_what_it_had_once_it_cannot_run_any_more(berth: Running, throttled: bool) -> None:
    name = f"banned while {'queued' if throttled else 'running'}"
    with world(berth, name, POLLED, "--over-limit", "queue") as made:
        if throttled:
            made.fault(fault={"oob": 1})
        job_id = made.submit(seconds=20)
        wait_for(lambda: made.job(job_id)["phase"] == "accepted")
        made.fault(fault={"ban": True})
        released(made, made.ended(job_id))
        made.upstream.delete("/control/faults")


def test_an_account_that_is_gone_at_its_provider_ends_what_it_had(berth: Running) -> None:
    with world(berth, "a deleted account", POLLED) as made:
        job_id = made.submit(seconds=20)
        wait_for(lambda: made.job(job_id)["phase"] == "accepted")
        made.upstream.delete("/control/accounts/acct-001")
        released(made, made.ended(job_id))


def test_what_the_tenant_did_wrong_is_tried_once_and_punishes_no_account(berth: Running) -> None:
    with world(berth, "a bad request", POLLED, accounts=2) as made:
        job = made.ended(made.submit(fail=422))
        released(made, job)
        assert job["attempts"] == 1
        assert [request["verdict"] for request in made.requests()] == ["failed"]
        assert made.sessions()["available"] == 2


def test_a_failure_that_was_billed_costs_its_account_and_the_tenant_pays_once(berth: Running) -> None:
    """The first try fails on one account and is billed, the second succeeds on the other."""
    name = "a billed failure"
    upstream = {**POLLED, "submit": DEDUPLICATES, "poll": {**POLL, "cost": "response.body.units"}}
    with simulator("--accounts", "2") as url:
        made_config = config(name, url, 2, upstream, delivery="at_least_once", cost="5")
        for account in made_config["pools"][name]["accounts"].values():
            account["credits"] = 100
        berth.apply(made_config, **credentials(2))
        with World(berth, name, url) as made:
            job = made.ended(made.submit(units=4, fail={"code": 500, "billed": True}, times=1))
            assert (job["state"], job["attempts"], job["credits"]["charged"]) == ("completed", 2, "4.000000")
            costs = made.sql(
                "SELECT string_agg(b.posted::text, ' ' ORDER BY a.id) FROM credits_balance b JOIN credits_account a "
                "ON a.id = b.account_id JOIN pool_upstreamaccount u ON u.id = a.owner_id AND a.kind = 'upstream' "
                f"JOIN pool_pool p ON p.id = u.pool_id WHERE p.name = '{name}'"
            )
            assert costs == "96000000 96000000", "each account paid for its own"
            assert {line["account"] for line in made.executions(job["id"])} == {"acct-001", "acct-002"}
