"""The referee: after a run with faults it says from outside what was lost, done twice, or never given back.

Its rules are the invariants J1-J10, U1-U5 and T1-T3, parts of them with a letter more, and the standing invariants of pools
(I…), where those say more.
"""

from tests.referee import executions, jobs, tenancy, upstream
from tests.referee.evidence import Evidence, Rule, Violation

__all__ = ["RULES", "Evidence", "Rule", "Violation", "violations"]

RULES: tuple[Rule, ...] = (*jobs.RULES, *executions.RULES, *upstream.RULES, *tenancy.RULES)


def violations(evidence: Evidence) -> list[Violation]:
    """Every rule that does not hold, in their order."""
    return [found for rule in RULES if (found := rule.violation(evidence)) is not None]
