"""T1-T3 and I4: tenants see what is theirs, their money keeps its line, and what they are told never goes back."""

from collections.abc import Mapping
from typing import Any

from tests.referee.evidence import TERMINAL, Evidence, Row, Rule

NOT_FOUND, UNCHANGED = 404, 304
NOT_DURABLE = "assigned"  # may be taken back by a crash of the database, before anything was sent
OF_THE_REQUEST = {
    "instance",
    "request_id",
    "trace_id",
}  # of a refusal: these speak of the request, not of what was asked


def what_is_anothers_is_not_there(evidence: Evidence) -> list[Any]:
    """Who asks for another tenant's job is answered 404, always in the same words."""
    wrong, words = [], set()
    for line in evidence.requests:
        owner = evidence.jobs.get(line["job"], {}).get("tenant") if line["act"] != "submit" and line["job"] else None
        if owner is None or owner == line["tenant"] or line["status"] is None or line["status"] >= 500:
            continue
        if line["status"] != NOT_FOUND:
            wrong.append(dict(line))
        else:
            words.add(_words(line["answer"]))
    return wrong + ([{"answers": sorted(words)}] if len(words) > 1 else [])


def nobody_is_below_his_line(evidence: Evidence) -> list[Row]:
    """What a wallet has, less what it holds, is never below its credit line or the floor set for it (I4)."""
    return evidence.rows("""
        SELECT account_id, posted, held, credit_limit, hard_floor FROM credits_balance
        WHERE posted - held < LEAST(hard_floor, -credit_limit)""")


def every_ledger_sums_to_zero(evidence: Evidence) -> list[Row]:
    """Over all accounts of a ledger, what was booked sums to nothing."""
    return evidence.rows("""
        SELECT a.ledger, sum(e.amount) AS sum FROM (
            SELECT credit_id AS account_id, amount FROM credits_transfer
            UNION ALL SELECT debit_id, -amount FROM credits_transfer) e
        JOIN credits_account a ON a.id = e.account_id GROUP BY a.ledger HAVING sum(e.amount) <> 0""")


def versions_only_grow(evidence: Evidence) -> list[Any]:
    """Of one job a tenant is never told an older version after a newer one, nor two states of one version, nor that an
    end was undone but by a replay; what is "not changed" was told before, and nothing newer since.
    """
    newest: dict[str, tuple[int, str]] = {}
    all_told: set[tuple[str, int]] = set()
    replayed = {line["job"] for line in evidence.requests if line["act"] == "replay"}
    wrong = []
    for line in evidence.requests:
        seen, answer, unless = newest.get(line["job"]), line["answer"], line.get("unless")
        if line["status"] == UNCHANGED and ((line["job"], unless) not in all_told or (seen and unless < seen[0])):
            wrong.append({"job": line["job"], "unchanged since": unless, "told": seen})
        if line["status"] not in (200, 202) or not isinstance(answer, Mapping) or "version" not in answer:
            continue
        told = int(answer["version"]), str(answer.get("state", ""))
        all_told.add((line["job"], told[0]))
        if told[1] == NOT_DURABLE:
            continue
        if seen is not None and line["job"] not in replayed and _goes_back(seen, told):
            wrong.append({"job": line["job"], "told": seen, "then": told})
        if seen is None or told[0] >= seen[0]:
            newest[line["job"]] = told
    return wrong


def what_was_told_is_true(evidence: Evidence) -> list[Any]:
    """No tenant was told a newer version than the job has, or an end that is not its end."""
    wrong = []
    replayed = {line["job"] for line in evidence.requests if line["act"] == "replay"}
    for line in evidence.requests:
        answer, row = line["answer"], evidence.jobs.get(line["job"])
        if row is None or line["status"] not in (200, 202) or not isinstance(answer, Mapping):
            continue
        state = answer.get("state")
        if state == NOT_DURABLE:
            continue
        undone = state in TERMINAL and state != row["state"] and row["run"] == 1 and line["job"] not in replayed
        if undone or int(answer.get("version", 0)) > row["version"]:
            wrong.append({"job": line["job"], "told": dict(answer), "is": (row["state"], row["version"])})
    return wrong


def _goes_back(seen: tuple[int, str], told: tuple[int, str]) -> bool:
    same = seen[0] == told[0] and seen[1] != told[1] and "" not in (seen[1], told[1])
    return told[0] < seen[0] or same or (seen[1] in TERMINAL and told[1] not in ("", seen[1]))


def _words(answer: Any) -> str:
    if not isinstance(answer, Mapping):
        return str(answer)
    return str(sorted((name, value) for name, value in answer.items() if name not in OF_THE_REQUEST))


RULES = (
    Rule("T1", what_is_anothers_is_not_there),
    Rule("T2", nobody_is_below_his_line),
    Rule("T2", every_ledger_sums_to_zero),
    Rule("T3", versions_only_grow),
    Rule("I8", what_was_told_is_true),
)
