"""`python -m bench.ledger.torture --seconds 60`: 12 connections, 3 hot wallets, backends killed all the time.

Each connection calls the ledger's functions at random, in sets over all wallets; another one terminates whoever is busy.
Afterwards the audit has to be clean and no connection may have seen a deadlock. Exit code 0 when it is so.
"""

import argparse
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg2
import psycopg2.extensions
import psycopg2.extras

from bench.ledger.server import Server, serve

KILL_SECONDS = 0.05
RECENT = 60  # holds back that closings and refunds choose from
HARMLESS = {"57P01", "08006", "08003", "?"}  # the connection was killed, before or while it spoke
REFUSED = "23514"  # a refund beyond the charge
TWICE = "23505"  # an attempt that was held before

GRANT = """
SELECT credits_fund_lot(%(wallet)s, (SELECT id FROM credits_account WHERE kind = 'issuer'), %(amount)s, %(key)s,
                        'grant_' || %(category)s, %(category)s, %(priority)s,
                        clock_timestamp() + %(ms)s * interval '1 ms', NULL, NULL)
"""
HOLD = """
SELECT refused FROM credits_place_holds(%(tenant)s, %(jobs)s::uuid[], %(runs)s, %(amounts)s::bigint[], 86400, true)
"""
CEILING = "INSERT INTO credits_ceiling (id, day_budget) VALUES (1, 1000000000000000)"
ATTEMPT = """
SELECT credits_hold_upstream('resource:1', %(accounts)s::bigint[], %(jobs)s::uuid[], %(runs)s, %(runs)s,
                             %(amounts)s::bigint[], 86400)
"""
ATTEMPT_ENDS = """
SELECT credits_close_upstream(%(jobs)s::uuid[], %(runs)s, %(runs)s, %(spent)s::bigint[], 'torture')
"""
TOP_UP = """
WITH booked AS (
    INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code)
    SELECT %(key)s, 'resource:1', t.id, a.id, 200, 'topup' FROM credits_account t, credits_account a
    WHERE t.kind = 'upstream_topup' AND a.kind = 'upstream' AND a.owner_id = %(account)s RETURNING credit_id)
UPDATE credits_balance SET posted = posted + 200 FROM booked WHERE account_id = credit_id
"""
CLOSE = """
SELECT count(*) FROM credits_close_holds(%(jobs)s::uuid[], %(runs)s, %(actuals)s::bigint[], %(policies)s::text[], 'torture')
"""
REFUND = """
SELECT credits_fund_lot(t.debit_id, t.credit_id, %(amount)s, %(key)s, 'refund', 'paid', 50, NULL, t.hold_id, t.id)
FROM credits_hold h JOIN credits_transfer t ON t.op_key = 'settle:' || h.id
WHERE h.job_id = %(job)s::uuid AND h.attempt = 0
"""
LOCK = "SELECT account_id FROM credits_balance ORDER BY account_id FOR NO KEY UPDATE"
KILL = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = 'torture' AND state IN ('active', 'idle in transaction') ORDER BY random() LIMIT 1
"""


class Torture:
    def __init__(self, server: Server, seconds: float) -> None:
        self.server = server
        self.until = time.monotonic() + seconds
        self.seen: Counter[str] = Counter()
        self.said: dict[str, str] = {}  # by the first error of its code
        self.jobs: list[str] = []
        self.failure: BaseException | None = None

    def run(self, connections: int) -> None:
        deeds = [self._torment] * connections + [self._kill]
        threads = [threading.Thread(target=self._guarded, args=(deed, n)) for n, deed in enumerate(deeds)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failure:
            raise self.failure

    def _guarded(self, deed: Callable[[int], None], number: int) -> None:
        try:
            deed(number)
        except BaseException as error:
            self.failure = error
            raise

    def _torment(self, number: int) -> None:
        chance, connection = random.Random(number), None
        while time.monotonic() < self.until:
            try:
                if connection is None or connection.closed:
                    connection = psycopg2.connect(self.server.url, application_name="torture")
                with connection, connection.cursor() as cursor:
                    told = self._deed(cursor, chance)
                    self.seen[told] += 1
                    if told == "hold refused":
                        connection.rollback()
            except psycopg2.Error as error:
                code = error.pgcode or "?"
                self.said.setdefault(code, str(error))
                self.seen[
                    {REFUSED: "refund refused", TWICE: "attempt twice"}.get(
                        code, f"killed {code}" if code in HARMLESS else code
                    )
                ] += 1
                if connection is not None and not connection.closed:
                    try:
                        connection.rollback()
                    except psycopg2.Error:
                        connection.close()

    def _deed(self, cursor: Any, chance: random.Random) -> str:
        account, tenant = chance.choice(self.server.wallets)
        what = chance.random()
        if what < 0.18:
            terms = {
                "wallet": account,
                "amount": chance.randint(1, 60),
                "key": f"grant:{uuid4()}",
                "category": chance.choice(["promo", "paid"]),
                "priority": chance.choice([1, 50]),
                "ms": chance.choice([50, 500, 10**9]),
            }
            cursor.execute(GRANT, terms)
            return "grant"
        if what < 0.5 or not self.jobs:
            return self._hold(cursor, chance, tenant)
        if what < 0.85:
            return self._close(cursor, chance)
        if what < 0.93:
            return self._attempt(cursor, chance)
        if what < 0.97:
            job = chance.choice(self.jobs[-RECENT:])
            cursor.execute(REFUND, {"job": job, "amount": chance.randint(1, 20), "key": f"refund:{uuid4()}"})
            return "refund"
        cursor.execute("SELECT credits_expire_due(10)")
        return "expire"

    def _hold(self, cursor: Any, chance: random.Random, tenant: int) -> str:
        jobs = [str(uuid4()) for _ in range(chance.choice([1, 1, 3]))]
        amounts = [chance.randint(0, 40) for _ in jobs]
        cursor.execute(HOLD, {"tenant": tenant, "jobs": jobs, "runs": [1] * len(jobs), "amounts": amounts})
        if cursor.fetchone()[0] is not None:
            return "hold refused"
        self.jobs += jobs
        return "hold"

    def _attempt(self, cursor: Any, chance: random.Random) -> str:
        """Sets aside of upstream accounts, ends attempts, or tops up."""
        jobs = list({chance.choice(self.jobs[-RECENT:]) for _ in range(chance.choice([1, 3]))})
        terms = {"jobs": jobs, "runs": [1] * len(jobs)}
        what = chance.random()
        if what < 0.1:
            cursor.execute(TOP_UP, {"key": f"topup:{uuid4()}", "account": chance.choice([1, 2])})
            return "top-up"
        if what < 0.55:
            accounts = [chance.choice([1, 2]) for _ in jobs]
            cursor.execute(ATTEMPT, {**terms, "accounts": accounts, "amounts": [chance.randint(1, 20) for _ in jobs]})
            return "attempt" if cursor.fetchone()[0] else "hold refused"
        cursor.execute(ATTEMPT_ENDS, {**terms, "spent": [chance.choice([None, 3, 25]) for _ in jobs]})
        return "attempt ended"

    def _close(self, cursor: Any, chance: random.Random) -> str:
        jobs = list({chance.choice(self.jobs[-RECENT:]) for _ in range(chance.choice([1, 4, 12]))})
        released = chance.random() < 0.3
        if chance.random() < 0.3:
            cursor.execute(LOCK)
        parameters = {
            "jobs": jobs,
            "runs": [1] * len(jobs),
            "actuals": None if released else [chance.randint(0, 50) for _ in jobs],
            "policies": None if released else [chance.choice(["absorb", "debt"]) for _ in jobs],
        }
        cursor.execute(CLOSE, parameters)
        return "release" if released else "settle"

    def _kill(self, _number: int) -> None:
        connection = psycopg2.connect(self.server.url, application_name="killer")
        connection.autocommit = True
        with connection.cursor() as cursor:
            while time.monotonic() < self.until:
                time.sleep(KILL_SECONDS)
                cursor.execute(KILL)
                self.seen["kills"] += cursor.rowcount


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--connections", type=int, default=12)
    options = parser.parse_args()
    with serve(3, limit=50, pressed=True) as server:
        with psycopg2.connect(server.url) as setup, setup.cursor() as cursor:
            cursor.execute(CEILING)
        torture = Torture(server, options.seconds)
        torture.run(options.connections)
        breaches = server.breaches()
    known = {"grant", "hold", "hold refused", "settle", "release", "refund", "refund refused", "expire", "kills",
             "attempt", "attempt ended", "attempt twice", "top-up"}  # fmt: skip
    surprises = {what: n for what, n in torture.seen.items() if what not in known and not what.startswith("killed")}
    for what, times in sorted(torture.seen.items()):
        print(f"{what:<16}{times:>8}")
    for code in surprises:
        print(f"{code} was first: {torture.said.get(code, '')}")
    print(f"surprises: {surprises or 'none'}; breaches of the audit: {breaches or 'none'}")
    return 1 if surprises or breaches else 0


if __name__ == "__main__":
    sys.exit(main())
