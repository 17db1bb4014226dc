"""`python -m bench.ledger.hot_tenant`: what one tenant can submit while 16 connections submit for it at once.

In one run, against one durable Postgres: as Berth does (one message, which is a transaction: the job is inserted, then
`jobs_enter` holds its price, whose update of the busy row is its lock, and gives turns), and by a version kept here that
locks the busy row first and then goes statement by statement, as one would write it by hand. Berth prepares its statements;
so that it can be told how much of the ratio that is, the version by hand runs with its statements prepared too. All write
the same rows and wait for the disk. Rounds alternate, so that a slow minute meets all, and the median counts. It needs idle
cores: where the processor is the limit, the lock is not.
"""

import argparse
import multiprocessing
import re
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any
from uuid import uuid4

import psycopg2

from bench.ledger.filling import give_defaults
from bench.ledger.server import serve

LEAST_RATIO = 1.7
AMOUNT = 10
WORLD = """
INSERT INTO tenants_tenant (id, name, share) VALUES (%(tenant)s, 'tenant', 1);
INSERT INTO pool_pool (id, name, "order", "window") VALUES (1, 'pool', 'fair', 10);
INSERT INTO jobs_jobtype (id, name, pool_id, price, max_runtime_ms) VALUES (1, 'type', 1, '10', 1000);
SELECT credits_fund_lot(%(account)s, (SELECT id FROM credits_account WHERE kind = 'issuer'), 1000000000000, 'grant:bench',
                        'grant_paid', 'paid', 50, NULL, NULL, NULL)
"""
# Name → types of the parameters, and the statement. Those of both, then those of each.
STATEMENTS = {
    "told": (
        "",
        """SELECT set_config('berth.cause', 'submit', true), set_config('berth.actor', 'bench', true),
                  set_config('lock_timeout', '2s', true)""",
    ),
    "job": (
        "uuid, bigint, bigint, text",
        """INSERT INTO jobs_job (id, tenant_id, type_id, pool_id, state, run, version, payload, weight, price, idempotency_key)
           VALUES ($1, $2, 1, 1, 'pending', 1, 1, '{"pages": 1}', 1, $3, $4)""",
    ),
    "enter": ("uuid, bigint, bigint", "SELECT given FROM jobs_enter($1, 1, $2, 1, $3, 86400, true, false)"),
    "lock": (
        "bigint",
        """SELECT b.account_id, b.posted - b.held + least(b.credit_limit, -b.hard_floor) FROM credits_balance b
           JOIN credits_account a ON a.id = b.account_id
           WHERE a.ledger = 'tenant' AND a.kind = 'wallet' AND a.owner_id = $1 FOR NO KEY UPDATE OF b""",
    ),
    "hold": (
        "bigint, uuid, bigint",
        """INSERT INTO credits_hold (account_id, job_id, run, amount, review_at)
           VALUES ($1, $2, 1, $3, now() + interval '1 day') RETURNING id""",
    ),
    "lot": (
        "bigint, bigint",
        """SELECT id FROM credits_lot WHERE account_id = $1 AND NOT spent AND remaining - reserved >= $2
           ORDER BY priority, expires_at NULLS LAST, category = 'paid', id LIMIT 1""",
    ),
    "part": ("bigint, bigint, bigint", "INSERT INTO credits_holdlot (hold_id, lot_id, amount) VALUES ($1, $2, $3)"),
    "reserve": ("bigint, bigint", "UPDATE credits_lot SET reserved = reserved + $1 WHERE id = $2"),
    "balance": (
        "bigint, bigint",
        "UPDATE credits_balance SET held = held + $1, version = version + 1 WHERE account_id = $2",
    ),
    "turns": ("bigint", "SELECT id FROM jobs_give_turns(1, ARRAY[$1])"),
}

PLAIN = {name: re.sub(r"\$\d", "%s", statement) for name, (_, statement) in STATEMENTS.items()}
CALLS = {
    name: f"EXECUTE {name}" + (f"({', '.join(['%s'] * (types.count(',') + 1))})" if types else "")
    for name, (types, _) in STATEMENTS.items()
}

Submit = Callable[[Any, int], None]


def ours(connection: Any, tenant: int) -> None:
    """A refusal would raise."""
    job = str(uuid4())
    with connection.cursor() as cursor:
        message = f"{CALLS['told']}; {CALLS['job']}; {CALLS['enter']}"
        cursor.execute(message, (job, tenant, AMOUNT, job, job, tenant, AMOUNT))


def by_hand(connection: Any, tenant: int) -> None:
    _lock_first(connection, tenant, lambda name: PLAIN[name])


def prepared(connection: Any, tenant: int) -> None:
    _lock_first(connection, tenant, lambda name: CALLS[name])


def _lock_first(connection: Any, tenant: int, sql: Callable[[str], str]) -> None:
    job = str(uuid4())
    with connection.cursor() as cursor:
        cursor.execute(f"BEGIN; {sql('told')}; {sql('lock')}", (tenant,))
        account, available = cursor.fetchone()
        if available < AMOUNT:
            raise RuntimeError("the hold was refused")
        cursor.execute(sql("job"), (job, tenant, AMOUNT, job))
        cursor.execute(sql("hold"), (account, job, AMOUNT))
        (hold,) = cursor.fetchone()
        cursor.execute(sql("lot"), (account, AMOUNT))
        (lot,) = cursor.fetchone()
        cursor.execute(sql("part"), (hold, lot, AMOUNT))
        cursor.execute(sql("reserve"), (AMOUNT, lot))
        cursor.execute(sql("balance"), (AMOUNT, account))
        cursor.execute(sql("turns"), (tenant,))
        cursor.execute("COMMIT")


def client(url: str, tenant: int, submit: Submit, until: float, told: Any) -> None:
    """Submits until then, and tells how often."""
    connection, count = psycopg2.connect(url), 0
    connection.autocommit = True
    with connection.cursor() as cursor:
        for name, (types, statement) in STATEMENTS.items():
            cursor.execute(f"PREPARE {name}{types and f'({types})'} AS {statement}")
    while time.monotonic() < until:
        submit(connection, tenant)
        count += 1
    connection.close()
    told.put(count)


def rate(url: str, tenant: int, submit: Submit, connections: int, seconds: float) -> float:
    """Submits per second of all connections together; each is a process, so that none waits for another's interpreter."""
    told: Any = multiprocessing.Queue()
    until = time.monotonic() + 0.5 + seconds
    clients = [
        multiprocessing.Process(target=client, args=(url, tenant, submit, until, told)) for _ in range(connections)
    ]
    for process in clients:
        process.start()
    total = sum(told.get(timeout=seconds + 60) for _ in clients)
    for process in clients:
        process.join()
    return float(total / (seconds + 0.5))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5, help="of one round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with serve(1) as server:
        ((account, tenant),) = server.wallets
        setup = psycopg2.connect(server.url)
        setup.autocommit = True
        with setup.cursor() as cursor:
            give_defaults(cursor)
            cursor.execute(WORLD, {"tenant": tenant, "account": account})
        ways = {"ours": ours, "lock first": by_hand, "prepared": prepared}
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, submit in ways.items():
                rates[name].append(rate(server.url, tenant, submit, options.connections, options.seconds))
        breaches = server.breaches()
    typical = {name: median(found) for name, found in rates.items()}
    for name, found in rates.items():
        print(f"{name:<11}{typical[name]:>7.0f} submits/s   rounds: {', '.join(f'{each:.0f}' for each in found)}")
    ratio, of_prepared = (typical["ours"] / typical[name] for name in ("lock first", "prepared"))
    print(f"ratio {ratio:.2f} (at least {LEAST_RATIO}), {of_prepared:.2f} where the other prepares its statements too")
    print(f"breaches of the audit: {breaches or 'none'}")
    return 1 if ratio < LEAST_RATIO or breaches else 0


if __name__ == "__main__":
    sys.exit(main())
