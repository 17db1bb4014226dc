"""The claim: which session a turn meets, and that it stays flat however many jobs wait."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from jobs import transitions
from jobs.models import Attempt
from jobs.queries import claim, line, missed
from pool.models import Resource
from tests import db, factories

pytestmark = pytest.mark.django_db
WAITING = 20_000


def test_the_account_used_longest_ago_goes_first() -> None:
    pool = factories.make_pool(accounts=3, sessions=2)
    job_type, tenant = factories.make_job_type(pool), factories.make_tenant()
    used = []
    for _ in range(6):
        factories.submit(tenant, job_type)
        assert transitions.assign(pool.pk) == 1
        used.append(Attempt.objects.latest("id").account.name)
    assert sorted(used[:3]) == ["acct-001", "acct-002", "acct-003"]
    assert used[3:] == used[:3]


def test_a_session_of_another_pool_is_nothing_for_this_one() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=1))
    factories.make_pool(sessions=5)
    factories.submit_many(factories.make_tenant(), job_type, 3)
    assert transitions.assign(job_type.pool_id) == 1


def test_a_session_that_is_given_to_nobody_wakes_no_claim() -> None:
    job_type = factories.make_job_type()
    factories.submit(factories.make_tenant(), job_type)
    assert missed.pools_to_assign() == [job_type.pool_id]
    Resource.objects.filter(pool=job_type.pool).update(quarantined=True)
    assert missed.pools_to_assign() == []
    assert transitions.assign(job_type.pool_id) == 0


def test_one_claim_takes_no_more_than_a_batch_and_no_more_than_is_free() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=14, window=20))
    factories.submit_many(factories.make_tenant(), job_type, 20)
    assert [transitions.assign(job_type.pool_id) for _ in range(3)] == [claim.BATCH, 4, 0]


def test_a_pool_with_nothing_free_locks_no_turn(django_assert_num_queries: Any) -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=1))
    factories.submit_many(factories.make_tenant(), job_type, 5)
    with django_assert_num_queries(2):
        assert transitions.assign(job_type.pool_id) == 1
        assert transitions.assign(job_type.pool_id) == 0


@pytest.fixture
def crowd() -> dict[str, Any]:
    """Twenty thousand waiting jobs, a twentieth of them with a turn, and what the planner knows of them."""
    pool = factories.make_pool(accounts=10, sessions=2)
    job_type = factories.make_job_type(pool)
    tenant = factories.make_tenant(credits=0, billing="none")
    insert = """
        INSERT INTO jobs_job (id, tenant_id, type_id, pool_id, state, run, version, payload, metadata, priority, weight,
                              turn, attempts, tries, crashes, max_attempts, price, price_version, settle, overrun,
                              charged, flagged, idempotency_key, fingerprint)
        SELECT gen_random_uuid(), %s, %s, %s, 'pending', 1, 1, '{}', '{}', 0, 1, CASE WHEN n %% 20 = 0 THEN n END,
               0, 0, 0, 3, 0, 1, '', 'absorb', 0, '', 'key-' || n, ''
        FROM generate_series(1, %s) n"""
    db.execute(insert, [tenant.pk, job_type.pk, pool.pk, WAITING])
    for table in ("jobs_job", "jobs_attempt", "jobs_line", "pool_resource", "pool_pool", "tenants_tenant"):
        db.execute(f"ANALYZE {table}")
    return {"pool": pool.pk, "tenant": tenant.pk, "lease": 15, "actor": "test", "share": 1, "fifo": False}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def reads_jobs(node: dict[str, Any]) -> bool:
    """Whether jobs are among what the node itself joins or scans; a question asked per row (SubPlan) is not."""
    inputs = [part for part in node.get("Plans", ()) if part["Parent Relationship"] not in ("SubPlan", "InitPlan")]
    scans = node.get("Relation Name") == "jobs_job" and "Scan" in node["Node Type"]
    return scans or any(reads_jobs(part) for part in inputs)


def test_no_question_of_the_line_reads_all_who_wait(crowd: dict[str, Any]) -> None:
    statements = {
        "claim": (claim._CLAIM, crowd),
        "owed": (line._OWED, ()),
    }
    for name, (statement, parameters) in statements.items():
        found = db.value(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
        plan = list(nodes((json.loads(found) if isinstance(found, str) else found)[0]["Plan"]))
        assert not [node for node in plan if node["Node Type"] == "Seq Scan" and reads_jobs(node)], name
        assert not [node for node in plan if node["Node Type"] == "Hash Join" and reads_jobs(node)], name
    assert transitions.assign(crowd["pool"]) == claim.BATCH


def test_giving_turns_reads_no_more_jobs_than_it_counts_and_gives(crowd: dict[str, Any]) -> None:
    """Asked of Postgres, since a statement within a function cannot be explained; again and again, as plans change."""
    db.execute('UPDATE pool_pool SET "window" = %s WHERE id = %s', [WAITING // 20 + 1, crowd["pool"]])
    read = "SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'jobs_job'"
    for given in (1, 0, 0, 0, 0, 0, 0):
        scanned, fetched = db.rows(read)[0]
        assert len(line.give_turns(crowd["pool"], [crowd["tenant"]])) == given
        then_scanned, then_fetched = db.rows(read)[0]
        assert then_scanned == scanned
        assert then_fetched - fetched <= WAITING // 20 + 10, "those in line, and the few that got a turn"


def test_the_function_that_gives_turns_counts_by_the_words_of_the_other_questions() -> None:
    function = db.value("SELECT prosrc FROM pg_proc WHERE proname = 'jobs_give_turns'")
    for words in (line.WINDOW, line.CAP, line.WAITS):
        assert " ".join(words.split()) in " ".join(function.split())
