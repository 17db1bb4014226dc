"""One idempotency key is one job and one hold, whoever repeats it, through whichever web process, whatever Redis forgets."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx
import psycopg2
import pytest
import redis

from tests.whole.money.crowd import Post, submit_all_at_once
from tests.whole.money.world import World

pytestmark = pytest.mark.processes
KEYS, REPEATS = 20, 50
BODY = {"type": "charged as held", "payload": {"b": [1, {"d": 2, "c": 3}], "a": "x"}}
# The same in another order, with other spaces, and other spellings of the same texts and numbers.
SAME = b'{ "payload" : {"a":"\\u0078",\n"b":[1,{"c":3,"d":2}]} , "type" : "charged as held"}'
KEY = {"Idempotency-Key": "order-0000000001", "Content-Type": "application/json"}


def test_fifty_repeats_of_twenty_keys_at_once_are_twenty_jobs(world: World) -> None:
    tenant = "repeats"
    posts = [Post(world.keys[tenant], BODY, f"order-of-many-{number:04}") for number in range(KEYS)] * REPEATS
    random.Random(3).shuffle(posts)
    answers = submit_all_at_once(world.webs, posts, clients=64)
    assert {answer.status for answer in answers} <= {200, 202}  # 200: it had ended by then
    ids = {(answer.post.idempotency_key, answer.document["id"]) for answer in answers}
    assert (len(ids), len({key for key, _ in ids}), len(answers)) == (KEYS, KEYS, KEYS * REPEATS)
    assert world.holds(tenant) == KEYS
    world.jobs(tenant, {job_id for _, job_id in ids})
    assert world.balance(tenant) == (1_000 - 2 * KEYS, 0, 1_000 - 2 * KEYS)


def test_one_key_of_two_tenants_is_two_jobs_that_know_nothing_of_each_other(world: World) -> None:
    one, other = "repeats", "repeats as well"
    before = world.holds(one)
    with world.client(one) as ours, world.client(other, web=1) as theirs:
        first = ours.post("/v1/jobs", json={**BODY, "metadata": {"whose": "ours"}}, headers=KEY)
        second = theirs.post("/v1/jobs", json={**BODY, "metadata": {"whose": "theirs"}}, headers=KEY)
        assert (first.status_code, second.status_code) == (202, 202)  # nor is the other body a conflict
        assert [answer.json()["metadata"] for answer in (first, second)] == [{"whose": "ours"}, {"whose": "theirs"}]
        assert "Idempotency-Replayed" not in second.headers
        assert theirs.get(f"/v1/jobs/{first.json()['id']}").status_code == 404
    assert (world.holds(one), world.holds(other)) == (before + 1, 1)


def test_a_key_stands_for_what_its_body_says_not_how_it_is_written(world: World) -> None:
    key = {**KEY, "Idempotency-Key": "order-0000000002"}
    tenant = "repeats as well"
    before = world.holds(tenant)
    with world.client(tenant) as first, world.client(tenant, web=1) as second, world.client(tenant, web=2) as third:
        made = first.post("/v1/jobs", json=BODY, headers=key)
        same = second.post("/v1/jobs", content=SAME, headers=key)
        assert (made.status_code, same.json()["id"]) == (202, made.json()["id"])
        assert same.headers["Idempotency-Replayed"] == "true"
        for body in ({**BODY, "payload": {}}, {**BODY, "priority": 1}, {**BODY, "type": "charged by usage"}):
            refused = third.post("/v1/jobs", json=body, headers=key)
            problem = refused.json()
            assert (refused.status_code, refused.headers["Content-Type"]) == (422, "application/problem+json")
            assert (problem["code"], problem["job_id"]) == ("idempotency-key-reused", made.json()["id"])
    assert world.holds(tenant) == before + 1


def test_a_repeat_while_the_first_is_in_flight_waits_or_is_told_to_come_again(world: World) -> None:
    """The wallet is locked, so the first cannot end; both are refused undone, and then there is still one job."""
    tenant = "in flight"
    lock = (
        "SELECT b.account_id FROM credits_balance b JOIN credits_account a ON a.id = b.account_id"
        " JOIN tenants_tenant t ON t.id = a.owner_id WHERE t.name = %s AND a.kind = 'wallet' FOR UPDATE OF b"
    )

    def post(web: int) -> httpx.Response:
        with world.client(tenant, web) as client:
            return client.post("/v1/jobs", json=BODY, headers=KEY)

    with ThreadPoolExecutor(2) as threads:
        with closing(psycopg2.connect(world.berth.run["database_url"])) as connection, connection.cursor() as cursor:
            cursor.execute(lock, [tenant])
            while_locked = list(threads.map(post, range(2)))
        afterwards = list(threads.map(post, range(2)))
    # The first gave up at the wallet; the other at the key, or at the wallet after it.
    assert {answer.headers["Retry-After"] for answer in while_locked} == {"1"}
    said = {(answer.status_code, answer.json()["code"]) for answer in while_locked}
    assert said <= {(503, "temporary-reduced-capacity"), (409, "request-in-progress")}
    assert {answer.status_code for answer in afterwards} <= {200, 202}
    assert len({answer.json()["id"] for answer in afterwards}) == 1
    assert world.holds(tenant) == 1


def test_a_key_outlives_an_emptied_redis(world: World) -> None:
    with world.client("loses Redis") as client, world.client("loses Redis", web=3) as other:
        first = client.post("/v1/jobs", json=BODY, headers=KEY)
        with redis.Redis.from_url(world.berth.run["redis_url"]) as hints:
            hints.flushall()
        again = other.post("/v1/jobs", json=BODY, headers=KEY)
        assert (first.status_code, again.json()["id"]) == (202, first.json()["id"])
    assert world.holds("loses Redis") == 1
