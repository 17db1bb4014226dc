"""The words in which an app says which of its rows an audit of less than all asks: sources, scopes and figures."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A temporary table with the columns of this SQL; no two of its rows have the same key."""

    like: str
    key: str = "id"


@dataclass(frozen=True)
class Source:
    """SQL whose rows go into the temporary table `into`, but those that are there already."""

    into: str
    sql: str


@dataclass(frozen=True)
class Scope:
    """Table → the SQL that stands for it, with the same names for the columns a rule reads.

    What stands for a table has no key and no index: the rule names all it groups by, and joins it by equality.
    `of_tenant` is false where no tenant can be picked out; such a rule is then asked in full.
    """

    instead: Mapping[str, str]
    of_tenant: bool = True

    def narrow(self, sql: str) -> str:
        """The same question, over what stands for its tables. In a plain WITH a CTE does not see itself, but the table."""
        shadows = ", ".join(f"{table} AS ({source})" for table, source in self.instead.items())
        return f"WITH {shadows} {sql}"


@dataclass(frozen=True)
class Figure:
    """SQL of (subject_id, figure), up to the marks that are formatted into it: `{table}` is the table's last final id."""

    sql: str
    scope: Scope
