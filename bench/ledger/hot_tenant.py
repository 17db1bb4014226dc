"""`python -m bench.ledger.hot_tenant`: what one tenant can submit while 16 connections submit for it at once.

Twice in one run, against one durable Postgres: by the ledger's own function (the job and its hold are inserted, then the
busy row is locked by the update that checks it), and by a version kept here that locks the busy row first, as one would
write it by hand. Both write the same rows and wait for the disk. Rounds alternate, so that a slow minute meets both, and the
median counts. It needs idle cores: where the processor is the limit, the lock is not, and the ratio falls.
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any
from uuid import uuid4

import psycopg2

from bench.ledger.server import serve

LEAST_RATIO = 1.7
AMOUNT = 10
JOB_TABLE = "CREATE TABLE bench_job (id uuid PRIMARY KEY, tenant_id bigint, payload jsonb, created_at timestamptz)"
JOB = "INSERT INTO bench_job VALUES (%s, %s, '{\"pages\": 1}', now())"
GRANT = """
SELECT credits_fund_lot(%s, (SELECT id FROM credits_account WHERE kind = 'issuer'), 1000000000000, 'grant:bench',
                        'grant_paid', 'paid', 50, NULL, NULL, NULL)
"""
OURS = "SELECT placed_runs FROM credits_place_holds(%s, ARRAY[%s::uuid], ARRAY[1], ARRAY[%s::bigint], 86400, false)"

LOCK = """
SELECT b.account_id, b.posted - b.held + least(b.credit_limit, -b.hard_floor) FROM credits_balance b
JOIN credits_account a ON a.id = b.account_id
WHERE a.ledger = 'tenant' AND a.kind = 'wallet' AND a.owner_id = %s FOR NO KEY UPDATE OF b
"""
INSERT_HOLD = """
INSERT INTO credits_hold (account_id, job_id, run, amount, review_at)
VALUES (%s, %s, 1, %s, now() + interval '1 day') RETURNING id
"""
LOT = """
SELECT id FROM credits_lot WHERE account_id = %s AND NOT spent AND remaining - reserved >= %s
ORDER BY priority, expires_at NULLS LAST, category = 'paid', id LIMIT 1
"""
INSERT_PART = "INSERT INTO credits_holdlot (hold_id, lot_id, amount) VALUES (%s, %s, %s)"
RESERVE = "UPDATE credits_lot SET reserved = reserved + %s WHERE id = %s"
UPDATE_BALANCE = "UPDATE credits_balance SET held = held + %s, version = version + 1 WHERE account_id = %s"

Submit = Callable[[Any, int], None]


def ours(cursor: Any, tenant: int) -> None:
    job = str(uuid4())
    cursor.execute(JOB, (job, tenant))
    cursor.execute(OURS, (tenant, job, AMOUNT))
    if cursor.fetchone()[0] != 1:
        raise RuntimeError("the hold was refused")


def lock_first(cursor: Any, tenant: int) -> None:
    job = str(uuid4())
    cursor.execute(LOCK, (tenant,))
    account, available = cursor.fetchone()
    if available < AMOUNT:
        raise RuntimeError("the hold was refused")
    cursor.execute(JOB, (job, tenant))
    cursor.execute(INSERT_HOLD, (account, job, AMOUNT))
    (hold,) = cursor.fetchone()
    cursor.execute(LOT, (account, AMOUNT))
    (lot,) = cursor.fetchone()
    cursor.execute(INSERT_PART, (hold, lot, AMOUNT))
    cursor.execute(RESERVE, (AMOUNT, lot))
    cursor.execute(UPDATE_BALANCE, (AMOUNT, account))


def client(url: str, tenant: int, submit: Submit, until: float, told: Any) -> None:
    """Submits until then, and tells how often."""
    connection, count = psycopg2.connect(url), 0
    while time.monotonic() < until:
        with connection, connection.cursor() as cursor:
            submit(cursor, tenant)
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
            cursor.execute(JOB_TABLE)
            cursor.execute(GRANT, (account,))
        rates: dict[str, list[float]] = {"ours": [], "lock first": []}
        for _ in range(options.rounds):
            for name, submit in (("ours", ours), ("lock first", lock_first)):
                rates[name].append(rate(server.url, tenant, submit, options.connections, options.seconds))
        breaches = server.breaches()
    typical = {name: median(found) for name, found in rates.items()}
    for name, found in rates.items():
        print(f"{name:<11}{typical[name]:>7.0f} submits/s   rounds: {', '.join(f'{each:.0f}' for each in found)}")
    ratio = typical["ours"] / typical["lock first"]
    print(f"ratio {ratio:.2f} (at least {LEAST_RATIO}); breaches of the audit: {breaches or 'none'}")
    return 1 if ratio < LEAST_RATIO or breaches else 0


if __name__ == "__main__":
    sys.exit(main())
