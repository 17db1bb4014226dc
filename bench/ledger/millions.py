"""`python -m bench.ledger.millions --transfers 10000000`: what an audit of a large ledger takes, whole and each minute.

Fills a Postgres of its own, audits it once whole, then several times since the checkpoint with `--settles` new ones in
between, while another connection goes on settling. Prints the time of each rule; exit code 0 when no run found a breach
and the slowest since the checkpoint took less than a minute.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2

from bench.ledger.filling import JOBS, LEDGER, OPEN, WORLD, give_defaults
from bench.ledger.server import Server, serve

CHUNK = 250_000  # jobs filled in by one transaction
SET = 500  # jobs of one transaction of new traffic
PAUSE_SECONDS = 0.6  # between two of them, while an audit runs: 50,000 in a minute
LONGEST_SECONDS = 60
ARGUMENTS = {"whole": (), "since the checkpoint": ("--since-checkpoint",)}


class Filler:
    """Adds jobs by their numbers, from 1 on; all connections together only grow."""

    def __init__(self, server: Server, wallets: int, transfers: int) -> None:
        self.connection = psycopg2.connect(server.url)
        # Ten lots of each wallet are used up by the old jobs; a multiple of 20, of which 19 are charged.
        per_lot = max(20, transfers // wallets // 10 // 20 * 20)
        self.terms = {"wallets": wallets, "per_lot": per_lot, "entries": wallets * 11}
        self.next = 1
        with self.connection, self.connection.cursor() as cursor:
            give_defaults(cursor)
            cursor.execute(WORLD, self.terms)

    def add(self, jobs: int, *, only_ledger: bool = False, at_once: int = CHUNK) -> None:
        until = self.next + jobs
        while self.next < until:
            last = min(self.next + at_once, until) - 1
            self._run(LEDGER if only_ledger else LEDGER + JOBS, {"first": self.next, "last": last})
            self.next = last + 1

    def add_open(self) -> None:
        # Theirs are the numbers after those of the old jobs.
        self._run(OPEN, {})
        self.next += 1_000_000

    def tidy(self) -> None:
        """As autovacuum would have left it."""
        self.connection.autocommit = True
        with self.connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
        self.connection.autocommit = False

    def count(self, table: str) -> int:
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {table}")
            return int(cursor.fetchone()[0])

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """New jobs all the time, while inside."""
        stop = threading.Event()

        def settle() -> None:
            while not stop.wait(PAUSE_SECONDS):
                self.add(SET, at_once=SET)

        thread = threading.Thread(target=settle)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _run(self, statements: list[str], bounds: dict[str, int]) -> None:
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica; SET LOCAL synchronous_commit = off")
            for statement in statements:
                cursor.execute(statement, {**self.terms, **bounds})


def audit(server: Server, form: str) -> tuple[float, dict[str, Any]]:
    """Seconds of the whole command, and what it says."""
    command = [sys.executable, "manage.py", "audit", "--json", *ARGUMENTS[form]]
    started = time.monotonic()
    answer = subprocess.run(command, env={**os.environ, **server.env}, capture_output=True, text=True, check=False)
    if not answer.stdout:
        raise RuntimeError(answer.stderr)
    return time.monotonic() - started, json.loads(answer.stdout)


def tell(form: str, seconds: float, said: dict[str, Any], slowest: int) -> None:
    rules = said["rules"]
    print(
        f"\n{form}: {seconds:.1f} s; asked {said['asked']}; touched rows read in {said['touched_ms'] / 1000:.1f} s, "
        f"{len(rules)} rules in {sum(rule['ms'] for rule in rules.values()) / 1000:.1f} s, sums in "
        f"{said['figures_ms'] / 1000:.1f} s; {said['breaches']} breaches; checkpoint moved: {said['checkpoint_moved']}"
    )
    for name, rule in sorted(rules.items(), key=lambda rule: -rule[1]["ms"])[:slowest]:
        print(f"{rule['ms']:>10.0f} ms  {name}{'  BREACHES: ' + str(rule['rows'][:2]) if rule['count'] else ''}")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transfers", type=int, default=10_000_000)
    parser.add_argument("--jobs", type=int, default=1_000_000, help="of them, the newest, that are in all tables")
    parser.add_argument("--wallets", type=int, default=10_000)
    parser.add_argument("--settles", type=int, default=50_000, help="new ones between two audits")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slowest", type=int, default=100, help="rules to print of each run")
    options = parser.parse_args()
    breaches, longest = 0, 0.0
    with serve(1) as server:
        started = time.monotonic()
        filler = Filler(server, options.wallets, options.transfers)
        jobs = min(options.jobs, options.transfers)
        filler.add(options.transfers * 20 // 19 - jobs, only_ledger=True)
        filler.add_open()
        filler.add(jobs)
        filler.tidy()
        sizes = ", ".join(
            f"{filler.count(table):,} {table}"
            for table in ("credits_transfer", "credits_hold", "jobs_job", "jobs_jobmove", "pool_resourcemove")
        )
        print(f"filled in {time.monotonic() - started:.0f} s: {sizes}", flush=True)
        for form in ["whole", *["since the checkpoint"] * options.rounds]:
            with filler.going_on():
                seconds, said = audit(server, form)
            tell(form, seconds, said, options.slowest)
            breaches += said["breaches"]
            if form != "whole":
                longest = max(longest, seconds)
            filler.add(options.settles, at_once=SET)
    print(f"\n{breaches} breaches; the slowest audit since the checkpoint took {longest:.1f} s")
    return 1 if breaches or longest >= LONGEST_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
