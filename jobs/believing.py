"""What is believed of an answer that gainsays what is known, or that comes from elsewhere than the call went to."""

from collections.abc import Sequence

from jobs.findings import Finding
from jobs.queries import attempts
from jobs.states import FAILED, NOT_EXECUTED


def undeceived(findings: Sequence[Finding]) -> list[Finding]:
    """A refusal, or a key that is not known, says nothing of work that the upstream has shown that it took, nor of what was
    sent otherwise than is declared now. Of that nothing but a success is believed, or what is said under its reference.

    Asked under the lock of the attempts: it may have shown so, by a callback or to another asker, since the call began.
    """
    denied = [finding.flight.attempt_id for finding in findings if finding.denies]
    taken = attempts.shown_to_be_taken(denied) if denied else set()
    return [
        f.doubtful() if (f.denies and f.flight.attempt_id in taken) or _may_mean_other_work(f) else f for f in findings
    ]


def may_be_doubted(finding: Finding) -> bool:
    """Whether `undeceived` has to look at it."""
    return finding.denies or _may_mean_other_work(finding)


def _may_mean_other_work(finding: Finding) -> bool:
    flight = finding.flight
    if flight.declared_as_called:
        return False
    by_reference = finding.kind == "poll" and not flight.ways.polls_by_key
    return finding.denies or (finding.asked and finding.outcome.verdict in (FAILED, NOT_EXECUTED) and not by_reference)
