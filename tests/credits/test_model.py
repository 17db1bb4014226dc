"""A small model of two wallets walks beside the database: any sequence of verbs leaves both saying the same."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from credits import ledger
from credits.audit import RULES
from credits.errors import InsufficientCredits, LedgerConflict
from credits.ledger import Closing, HoldRequest
from tests.credits.conftest import TENANT_IDS

WHICH = st.integers(0, 1)
PICK = st.lists(st.integers(0, 30), min_size=1, max_size=6)


class Wallets(RuleBasedStateMachine):
    @initialize(limits=st.tuples(st.sampled_from([0, 30, 100]), st.sampled_from([0, 50])))
    def open(self, limits: tuple[int, int]) -> None:
        self.tenants = [next(TENANT_IDS) for _ in limits]
        self.limits, self.posted, self.grants = limits, [0, 0], 0
        self.jobs: list[UUID] = []
        self.open_holds: dict[UUID, tuple[int, int]] = {}
        for tenant, limit in zip(self.tenants, limits, strict=True):
            ledger.open_wallet(tenant, limit)

    def held(self, which: int) -> int:
        return sum(amount for owner, amount in self.open_holds.values() if owner == which)

    @rule(which=WHICH, amount=st.integers(1, 400), again=st.booleans())
    def grant(self, which: int, amount: int, again: bool) -> None:
        self.grants += 1
        key = f"{self.tenants[which]}:{self.grants}"
        assert ledger.grant(self.tenants[which], amount, key)
        if again:
            assert not ledger.grant(self.tenants[which], amount, key)
            with pytest.raises(LedgerConflict), transaction.atomic():
                ledger.grant(self.tenants[which], amount + 1, key)
        self.posted[which] += amount

    @rule(which=WHICH, amounts=st.lists(st.integers(0, 120), min_size=1, max_size=3), again=st.booleans())
    def hold(self, which: int, amounts: list[int], again: bool) -> None:
        requests = [HoldRequest(uuid4(), 0, amount) for amount in amounts]
        held = self.held(which)
        fits = self.posted[which] - held + self.limits[which] >= sum(amounts)
        if not fits:
            with pytest.raises(InsufficientCredits) as refusal, transaction.atomic():
                ledger.hold(self.tenants[which], requests, 3600)
            assert refusal.value.held == held
            return
        for _ in range(1 + again):
            ledger.hold(self.tenants[which], requests, 3600)
        self.jobs += [request.job_id for request in requests]
        self.open_holds |= {request.job_id: (which, request.amount) for request in requests}

    @rule(picks=PICK, percent=st.integers(0, 140), policy=st.sampled_from(["absorb", "debt"]))
    def settle(self, picks: list[int], percent: int, policy: Any) -> None:
        jobs = self.chosen(picks)
        actual = {job: self.open_holds.get(job, (0, 50))[1] * percent // 100 for job in jobs}
        closed = ledger.settle([Closing(job, 0, actual[job], policy) for job in jobs])
        assert {answer.job_id for answer in closed} == {job for job in jobs if job in self.open_holds}
        for answer in closed:
            which, amount = self.open_holds.pop(answer.job_id)
            assert answer.captured == min(amount, actual[answer.job_id])
            assert answer.captured + answer.overrun == actual[answer.job_id]
            self.posted[which] -= answer.captured

    @rule(picks=PICK)
    def release(self, picks: list[int]) -> None:
        jobs = self.chosen(picks)
        released = ledger.release([(job, 0) for job in jobs], "model")
        assert {job for job, _ in released} == {job for job in jobs if job in self.open_holds}
        for job, _ in released:
            del self.open_holds[job]

    def chosen(self, picks: list[int]) -> list[UUID]:
        return list({self.jobs[-1 - pick % len(self.jobs)]: None for pick in picks}) if self.jobs else []

    @invariant()
    def both_say_the_same(self) -> None:
        for which, tenant in enumerate(getattr(self, "tenants", [])):
            balance = ledger.balances(tenant)
            assert (balance.posted, balance.held) == (self.posted[which], self.held(which))
            assert balance.posted - balance.held >= -self.limits[which]

    def teardown(self) -> None:
        with connection.cursor() as cursor:
            for name, sql in RULES.items():
                cursor.execute(sql)
                assert cursor.fetchall() == [], name


@pytest.mark.django_db
def test_any_sequence_of_verbs_keeps_the_books() -> None:
    run_state_machine_as_test(
        Wallets,
        settings=settings(
            max_examples=30, stateful_step_count=20, deadline=None, database=None, phases=[Phase.generate, Phase.shrink]
        ),
    )
