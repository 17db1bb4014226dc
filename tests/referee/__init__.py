"""The referee: after a run with faults it says from outside what was lost, done twice, or never given back.

Its rules are the invariants J1-J10, U1-U5 and T1-T3, and the standing invariants of pools (I…), where those say more.
"""

from tests.referee import jobs, tenancy, upstream
from tests.referee.evidence import Evidence, Rule, Violation

__all__ = ["RULES", "Evidence", "Rule", "Violation", "violations"]

RULES: tuple[Rule, ...] = (*jobs.RULES, *upstream.RULES, *tenancy.RULES)


def violations(evidence: Evidence) -> list[Violation]:
    """Every rule that does not hold, in their order."""
    return [found for rule in RULES if (found := rule.violation(evidence)) is not None]
