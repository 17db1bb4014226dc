"""Assigning where upstream accounts have a balance: who can be paid for gets a session, who cannot makes way."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from django.db import transaction

from credits import ledger, upstream_accounts
from credits.pricing import short_text
from credits.upstream_accounts import AttemptHold
from jobs import alone, turns
from jobs.outage import DATABASE_AWAY
from jobs.queries import affording, claim, postponing
from statemachine.crashpoints import crashpoint
from statemachine.sql import Row

MOST_ROUNDS = 5  # of one assign: each sets aside jobs that nobody can pay for now


class Overtaken(Exception):
    """Another took of an account meanwhile what this assign counted on; nothing was assigned."""


def assign(pool_id: int, lease_seconds: float, review_seconds: float) -> list[Row]:
    """The next turns that an account can pay for get sessions, and what they are expected to use is set aside.

    Locks sessions and turns with SKIP LOCKED, then the pool row, then the balances of the accounts by id. A second caller
    takes other sessions and turns; where it counts on what the first has just taken, nothing of its round stands, and it
    looks again.
    """
    moved: list[Row] = []
    for _ in range(MOST_ROUNDS):
        try:
            with transaction.atomic():
                taken, parked, unmet = _round(pool_id, lease_seconds, review_seconds)
        except Overtaken:
            continue
        moved += taken
        crashpoint("assign.parked", parked)
        _follow(pool_id, parked)
        if len(moved) >= claim.BATCH or not (parked or (taken and unmet)):
            break
    return moved


def assign_one_by_one(pool_id: int, lease_seconds: float, review_seconds: float) -> list[Row]:
    """The next turns, each in a transaction of its own; one that fails leaves its line for a moment."""
    moved: list[Row] = []
    for job_id in affording.next_turns(pool_id):
        try:
            with transaction.atomic():
                moved += _round(pool_id, lease_seconds, review_seconds, job_id)[0]
        except Overtaken:
            break
        except DATABASE_AWAY:
            raise
        except Exception:  # noqa: BLE001  whatever its data provoke, the others go on; it is logged and tried again
            alone.failed("assign", job_id, postponing.turn)
    return moved


def _round(
    pool_id: int, lease_seconds: float, review_seconds: float, only: UUID | None = None
) -> tuple[list[Row], list[Row], list[Row]]:
    """The jobs that moved, those that left the line, and those that no account with a session to give can pay for."""
    payers = affording.payers(pool_id)
    waiting = (affording.turns(pool_id) if only is None else affording.one_turn(only)) if payers else []
    if not waiting:
        return [], [], []
    left = {payer["account_id"]: payer["available"] for payer in payers if payer["available"] is not None}
    # An account that can pay for none of them would fill the claim with sessions that nobody takes.
    least = min(turn["cost"] for turn in waiting)
    able = [payer["account_id"] for payer in payers if not least or left.get(payer["account_id"], least) >= least]
    pairs, unmet = match(affording.free_sessions(pool_id, able), waiting, left) if able else ([], waiting)
    moved = claim.take(pool_id, pairs, lease_seconds) if pairs else []
    crashpoint("assign.taken", moved)
    holds = [
        AttemptHold(p["account_id"], p["job_id"], p["run"], p["number"], p["cost"])
        for p in pairs
        if p["account_id"] in left
    ]
    if not upstream_accounts.hold(pool_id, holds, review_seconds):
        raise Overtaken
    crashpoint("assign.set_aside", moved)
    return moved, _make_way(pool_id, unmet, len(waiting)) if unmet else [], unmet


def _follow(pool_id: int, parked: list[Row]) -> None:
    """The next of those tenants get the turns that were given up, at once: a long line of jobs nobody can pay for is soon
    behind. Locks their balances, then counts, as any promotion.
    """
    if tenant_ids := sorted({row["tenant_id"] for row in parked}):
        with transaction.atomic():
            ledger.lock_wallets(tenant_ids)
            turns.give(pool_id, tenant_ids)


def match(free: Sequence[Row], waiting: Sequence[Row], left: Mapping[int, int]) -> tuple[list[Row], list[Row]]:
    """Each turn in its order meets the first session whose account can pay; (pairs, turns that met none of those left).

    `left`: account → micro-credits for new attempts; an account that is not in it can pay for anything.
    """
    sessions, purse = list(free), dict(left)
    pairs, unmet = [], []
    for turn in waiting:
        if not sessions:
            break
        cost = turn["cost"]
        found = next((s for s in sessions if not cost or purse.get(s["account_id"], cost) >= cost), None)
        if found is None:
            unmet.append(turn)
            continue
        sessions.remove(found)
        if found["account_id"] in purse:
            purse[found["account_id"]] -= cost
        job = {"job_id": turn["id"], **{name: turn[name] for name in ("turn", "run", "number", "cost")}}
        pairs.append({**job, "resource_id": found["id"], "account_id": found["account_id"], "fence": found["fence"]})
    return pairs, unmet


def in_words(most: int | None) -> str:
    """What the richest account has (as of `queries.affording.richest`), for an operator."""
    if most is None:
        return "an account can pay by now"
    return "no account takes jobs" if most == affording.NOBODY else f"the richest account has {short_text(most)}"


def _make_way(pool_id: int, unmet: list[Row], looked_at: int) -> list[Row]:
    """Those that no account can pay for leave the line. Those that wait for a busy one keep their turn, as many as a
    claim takes; more leave it for a moment where they were all that was seen. Returns those that left.
    """
    most = affording.richest(pool_id)
    hopeless = [turn for turn in unmet if most is not None and turn["cost"] > most]
    hopeful = [turn for turn in unmet if most is None or turn["cost"] <= most]
    if looked_at == affording.LOOK:
        hopeless += hopeful[claim.BATCH :]
    rows = affording.park([turn["id"] for turn in hopeless])
    turns.announce("park", rows)
    return rows
