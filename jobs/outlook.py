"""What is known of a job at the upstream, and what comes next by itself: in words, for operators. Nothing is decided here.

The decisions are those of `inquiry` (how it is asked) and `verdicts` (what follows), so that no page promises anything else.
"""

from datetime import datetime

from jobs import inquiry
from jobs.flight import Flight
from jobs.states import ACCEPTED, UNKNOWN
from jobs.verdicts import DEFAULT_RETRY, decide

Fact = tuple[str, str]  # what is asked, and the answer

_FOLLOWS = {
    "retry": "the job goes back to its line and runs again (delivery: at_least_once)",
    "cancel_ended": "the job is cancelled, its credits are given back",
    "complete": "the job is completed",
}


def in_short(flight: Flight) -> str:
    """One line: for a list."""
    row = flight.row
    if row["verdict"] == UNKNOWN:
        return f"outcome unknown ({row['error_code'] or 'no answer'}): {_next(flight)}"
    if row["phase"] == ACCEPTED:
        overdue = "overdue, still running" if flight.waited_out else f"at the upstream{_progress(flight)}"
        return f"{overdue}: {_next(flight)}"
    return f"the upstream is being called, since {_time(row['called_at'])}"


def in_full(flight: Flight) -> list[Fact]:
    """What an operator asks, in the order of asking."""
    row = flight.row
    facts = [("Known", _known(flight))]
    if row["phase"] == ACCEPTED or row["reference"]:
        facts.append(("Reference", row["reference"] or "none was given"))
    if row["verdict"] == UNKNOWN or row["phase"] == ACCEPTED:
        facts.append(("How it is found out", _how(flight)))
        following = _next(flight)
        facts.append(("Next", following[0].upper() + following[1:]))
        facts.append(("Last asked", _asked(flight)))
    facts.append(("At the latest", _latest(flight)))
    facts.append(("If nobody knows then", _follows(flight)))
    if row["cancel_requested_at"]:
        facts.append(("Cancel", _cancel(flight)))
    return facts


def by_itself(flight: Flight) -> str:
    """What comes of it if an operator only waits."""
    return f"{_next(flight)}; at the latest: {_latest(flight)} If nobody knows then: {_follows(flight)}."


def _known(flight: Flight) -> str:
    row = flight.row
    if row["verdict"] == UNKNOWN:
        why = ": ".join(filter(None, (row["error_code"], row["error_message"]))) or "there was no answer"
        return (
            f"The outcome is unknown ({why}). It may have been executed, so it is found out and never repeated blindly."
        )
    if row["phase"] != ACCEPTED:
        return f"The upstream is being called, since {_time(row['called_at'])}."
    told = "The upstream took the work and has not said that it ended"
    return f"{told}{_progress(flight)}; called at {_time(row['called_at'])}."


def _how(flight: Flight) -> str:
    row, ways = flight.row, flight.ways
    way = {
        "poll": "By a poll",
        "find": f"By finding its dispatch key {row['dispatch_key']}",
        "submit": f"By sending the same key again, which the upstream deduplicates (sent {row['sendings']} times, "
        f"{_most_sendings(flight)} at most)",
        "wait": "Nobody can be asked: only max_runtime, after which the session is certainly over, ends it",
    }[flight.way]
    told = ", or by its callback if that comes first" if ways.mode == "callback" else ""
    return f"{way}{told}."


def _next(flight: Flight) -> str:
    row = flight.row
    if row["lease_until"] is not None:
        return "the same key is being sent right now"
    verb = {"poll": "polled", "find": "looked for by its key", "submit": "sent again", "wait": "ends by itself"}[
        flight.way
    ]
    if flight.way == "submit" and row["closed_until"]:
        return f"sent again when the time of its closed pool is over, at {_time(row['closed_until'])}"
    at = row["ends_at"] if flight.way == "wait" else row["look_at"]
    if at is None or at <= row["now"]:
        return f"{verb} now, it is due"
    return f"{verb} at {_time(at)}"


def _asked(flight: Flight) -> str:
    if flight.row["asked_at"] is None:
        return "Not yet."
    failed = flight.row["asks_failed"]
    vain = "" if not failed else f"; {failed} in a row told nothing"
    return f"{_time(flight.row['asked_at'])}{vain}."


def _latest(flight: Flight) -> str:
    row, at = flight.row, _time(flight.row["ends_at"])
    may_run_on = flight.way in ("poll", "find")
    if flight.way == "submit":
        most = _most_sendings(flight)
        if row["closed_until"]:
            return f"max_runtime after it is sent again (of at most {most} sendings), when its pool is not closed any more."
        return f"{at}, if it is not sent again: each sending, of at most {most}, allows max_runtime anew."
    if flight.waited_out and may_run_on and row["verdict"] != UNKNOWN:
        return (
            f"Overdue since {at}: longer than max_runtime. It is asked for as long as the upstream says that it runs."
        )
    if flight.waited_out:
        return f"Overdue since {at}: it ends with the next asking, if that tells nothing."
    more = ", or later while the upstream says that it runs" if may_run_on else ""
    return f"{at} (max_runtime, as it was then, after it was sent){more}."


def _follows(flight: Flight) -> str:
    row = flight.row
    case = {**row, "verdict": UNKNOWN, "error_class": ""}
    decision = decide(case)
    if decision.verb == "fail":
        why = "no try is left" if row["delivery"] == "at_least_once" else f"delivery: {row['delivery']}"
        return f"the job fails with {decision.code} and its credits are given back ({why})"
    return _FOLLOWS[decision.verb]


def _cancel(flight: Flight) -> str:
    row = flight.row
    wanted = f"Wanted since {_time(row['cancel_requested_at'])}; what the upstream does decides."
    if not flight.ways.cancels:
        return f"{wanted} Its type declares no cancel, so what runs is waited for."
    if not row["reference"] and flight.ways.cancel_needs_reference:
        return f"{wanted} Nothing can be asked before the upstream has given a reference."
    times = f"Asked {row['cancels']} of {inquiry.MOST_CANCELS} times"
    if row["cancel_at"] is None:
        return f"{wanted} {times}; it is not asked again."
    due = "now, it is due" if row["cancel_at"] <= row["now"] else f"at {_time(row['cancel_at'])}"
    return f"{wanted} {times}; next {due}."


def _progress(flight: Flight) -> str:
    progress = flight.row["progress"]
    return "" if progress is None else f", {progress:.0%} done"


def _most_sendings(flight: Flight) -> int:
    return int({**DEFAULT_RETRY, **flight.row["retry"]}["attempts"]) + 1


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
