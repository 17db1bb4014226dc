"""A part of the database for the audit: the rows touched since a checkpoint, or those of one tenant, in temporary tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import connection

from credits import touched as of_credits
from jobs import touched as of_jobs
from pool import touched as of_pool
from statemachine.touched import Figure, Scope, Source, Table

REMEMBERED: Final = "SELECT name, subject_id, figure FROM broker_project_auditfigure"
TABLES: Final[dict[str, Table]] = {
    "remembered": Table(REMEMBERED, key="name, subject_id"),
    **of_credits.TABLES,
    **of_jobs.TABLES,
    **of_pool.TABLES,
}
SCOPES: Final[dict[str, Scope]] = {**of_credits.SCOPES, **of_jobs.SCOPES, **of_pool.SCOPES}
FIGURES: Final[dict[str, Figure]] = {**of_credits.FIGURES, **of_jobs.FIGURES, **of_pool.FIGURES}
# In their order: whose jobs were touched must be known before what belongs to them.
SINCE: Final = [*of_credits.SINCE, *of_jobs.SINCE, *of_pool.SINCE, *of_credits.BELONGING, *of_jobs.BELONGING]
OF_TENANT: Final = [*of_credits.OF_TENANT, *of_jobs.OF_TENANT, *of_credits.BELONGING, *of_jobs.BELONGING]


@dataclass(frozen=True)
class Part:
    """What is asked: rows beyond these marks (table → id), with the sums kept up to them; or all of one tenant."""

    marks: Mapping[str, int] = field(default_factory=dict)
    tenant: int | None = None

    def narrow(self, rule: str, sql: str) -> str:
        """The rule's SQL over the touched rows; as it is where its app names no scope, or no tenant can be picked out."""
        scope = SCOPES.get(rule)
        return scope.narrow(sql) if scope and (self.tenant is None or scope.of_tenant) else sql

    def make_tables(self) -> None:
        """Empty, and gone with this transaction: behind a pooler the next one may have another session. To be called
        before the transaction is told to read only, for then nothing can be created.
        """
        with connection.cursor() as cursor:
            for name, table in TABLES.items():
                cursor.execute(f"DROP TABLE IF EXISTS pg_temp.{name}")
                cursor.execute(f"CREATE TEMP TABLE {name} ON COMMIT DROP AS {table.like} WITH NO DATA")
                cursor.execute(f"CREATE UNIQUE INDEX ON {name} ({table.key})")

    def fill_tables(self) -> None:
        """Reads the touched rows: each is looked up by an index, whatever the size of its table."""
        sources = [self._remembered(), *(SINCE if self.tenant is None else OF_TENANT)]
        with connection.cursor() as cursor:
            # Else a planner that finds the touched rows many reads the whole index of a large table, in its order.
            _plan_freely(cursor, "off")
            cursor.execute("SET LOCAL default_statistics_target = 10")  # how many rows there are is all that matters
            for source in sources:
                cursor.execute(
                    f"INSERT INTO pg_temp.{source.into} {source.sql} ON CONFLICT DO NOTHING",
                    {**self.marks, "tenant": self.tenant},
                )
                cursor.execute(f"ANALYZE pg_temp.{source.into}")
            _plan_freely(cursor, "on")
            cursor.execute("SET LOCAL default_statistics_target = DEFAULT")

    def _remembered(self) -> Source:
        # A tenant is asked from its first row on.
        nothing = "SELECT 'credits_transfer', 0, 0 UNION ALL SELECT 'jobs_attempt', 0, 0"
        return Source("remembered", REMEMBERED if self.tenant is None else nothing)


def _plan_freely(cursor: Any, value: str) -> None:
    for setting in ("enable_seqscan", "enable_hashjoin", "enable_mergejoin"):
        cursor.execute(f"SET LOCAL {setting} = {value}")
