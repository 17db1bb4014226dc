"""`python -m tests.credits.serve 3 --limit 50`: a durable Postgres with that many wallets, until stdin ends.

For the benches, which are programs of their own. The first line on stdout is
{"env": …, "url": …, "wallets": [[account, tenant], …]}.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable

from tests.servers import ServersOfTheRun, await_answer

UPSTREAM_ACCOUNTS = 2  # of pool 1


class DurablePostgres(ServersOfTheRun):
    """As an installation has it: a commit waits for the disk. No Redis."""

    def _start(self) -> Callable[[], None]:
        from broker_project.supervisor.postgres import EmbeddedPostgres
        from broker_project.supervisor.processes import ProcessTable

        table = ProcessTable()
        try:
            postgres = EmbeddedPostgres(self.home, self.postgres_port, self.password)
            postgres.initialise()
            entry = table.start(postgres.role(self.home / "logs" / "postgres.log"))
            await_answer(postgres.answers, entry.log_text)
            postgres.create_database()
        except BaseException:
            table.stop_all()
            raise
        return table.stop_all


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wallets", type=int)
    parser.add_argument("--limit", type=int, default=0, help="the credit limit of each")
    parser.add_argument(
        "--pressed", action="store_true", help="with budgets, and upstream accounts that have a balance"
    )
    options = parser.parse_args()
    servers = DurablePostgres()
    try:
        import django

        django.setup()
        from django.core.management import call_command
        from django.db import connection

        from credits import ledger, upstream_accounts
        from tenants.models import Tenant

        call_command("migrate", verbosity=0)
        if options.pressed:
            # Marks and budgets so high that they are asked and refuse nothing, for all but the first.
            far = {"day_budget": 10**15, "month_budget": 10**15, "low_below": 1, "low_pause_ms": 0}
            for tenant in range(1, options.wallets + 1):
                Tenant.objects.create(pk=tenant, name=f"tenant-{tenant}", **(far if tenant > 1 else {}))
            for account in range(1, UPSTREAM_ACCOUNTS + 1):
                upstream_accounts.track(1, account)
                upstream_accounts.top_up(1, account, 10_000, f"opening:{account}")
        wallets = [(ledger.open_wallet(tenant, options.limit), tenant) for tenant in range(1, options.wallets + 1)]
        connection.close()
        names = ("DATABASE_URL", "REDIS_URL", "BERTH_HOME", "SECRET_KEY", "FIELD_KEYS", "KEY_PEPPERS")
        env = {name: os.environ[name] for name in names}
        sys.stdout.write(json.dumps({"env": env, "url": env["DATABASE_URL"], "wallets": wallets}) + "\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:
        servers.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
