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
    options = parser.parse_args()
    servers = DurablePostgres()
    try:
        import django

        django.setup()
        from django.core.management import call_command
        from django.db import connection

        from credits import ledger

        call_command("migrate", verbosity=0)
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
