"""A durable Postgres with wallets to press, and the audit asked of it, each as a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

# The holds of a bench belong to no job.
NOT_OURS = {"P5.open_hold_has_an_unfinished_job", "P5.open_attempt_alone_holds_of_its_account"}


@dataclass(frozen=True)
class Server:
    url: str
    wallets: list[tuple[int, int]]  # (account, tenant)
    env: dict[str, str]

    def breaches(self) -> dict[str, int]:
        """Rule → breaches that `manage.py audit` counts."""
        command = [sys.executable, "manage.py", "audit", "--json"]
        answer = subprocess.run(command, env={**os.environ, **self.env}, capture_output=True, text=True, check=False)
        rules = json.loads(answer.stdout)["rules"]
        return {name: rule["count"] for name, rule in rules.items() if rule["count"] and name not in NOT_OURS}


@contextmanager
def serve(wallets: int, limit: int = 0, *, pressed: bool = False) -> Iterator[Server]:
    """Runs while inside; all it wrote is gone afterwards. `pressed`: with budgets, and upstream accounts to hold of."""
    command = [sys.executable, "-m", "tests.credits.serve", str(wallets), "--limit", str(limit)]
    command += ["--pressed"] if pressed else []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None or process.stdin is None:
            raise RuntimeError("the server has no pipes")
        try:
            told = json.loads(process.stdout.readline())
            yield Server(told["url"], [(account, tenant) for account, tenant in told["wallets"]], told["env"])
        finally:
            process.stdin.close()
