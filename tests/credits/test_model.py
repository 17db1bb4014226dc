"""A model of two wallets walks beside the database: after any sequence of verbs both say the same, lot by lot.

BERTH_MODEL_RUNS and BERTH_MODEL_STEPS ask for more of it than the suite does (`python -m bench.ledger.model`).
"""

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from credits import ledger
from credits.audit import RULES
from credits.errors import BudgetExceeded, FloorInUse, InsufficientCredits, LedgerConflict, NotOwed, RefundExceedsCharge
from credits.ledger import Closing, HoldRequest
from tenants.models import Tenant
from tests.credits.beside import (
    found_lots,
    refused,
    some_are_due,
    some_may_expire,
    some_owe,
    some_were_charged,
    some_were_held,
)
from tests.credits.conftest import TENANT_IDS
from tests.credits.model import Lot, OverBudget, Run, Short, Wallet
from tests.credits.tamperings import TAMPERINGS
from tests.db import execute, rows, wait_for_a_day_that_lasts

RUNS = int(os.environ.get("BERTH_MODEL_RUNS", "80"))
STEPS = int(os.environ.get("BERTH_MODEL_STEPS", "30"))
SHRINK = [] if os.environ.get("BERTH_MODEL_SHRINK") == "no" else [Phase.shrink]  # to the shortest walk that fails
WHICH = st.integers(0, 1)
PICK = st.lists(st.integers(0, 30), min_size=1, max_size=6)
PERCENT = st.sampled_from([100, 60, 130, 0])  # of the hold, what it really cost
POLICY = st.sampled_from(["absorb", "debt"])
REFUND_PRIORITY = 50

done: Counter[str] = Counter()


class Wallets(RuleBasedStateMachine):
    @initialize(
        limits=st.tuples(st.sampled_from([0, 30, 100]), st.sampled_from([0, 50])), paid=st.sampled_from([0, 60, 300])
    )
    def open(self, limits: tuple[int, int], paid: int) -> None:
        wait_for_a_day_that_lasts()  # the model's budget is of one
        self.base = datetime.now(UTC)
        self.tenants, self.wallets = [next(TENANT_IDS) for _ in limits], [Wallet(limit) for limit in limits]
        self.runs: list[tuple[Run, int]] = []  # every run that was held, and whose it was
        self.keys = self.jobs = 0
        for tenant, limit in zip(self.tenants, limits, strict=True):
            Tenant.objects.create(pk=tenant, name=f"model-{tenant}")
            ledger.open_wallet(tenant, limit)
        if paid:
            ledger.grant(self.tenants[0], paid, key := self.key())
            self.wallets[0].grant(Lot(f"grant:{key}", paid))

    def key(self) -> str:
        self.keys += 1
        return f"{self.tenants[0]}:{self.keys}"

    def job(self) -> UUID:
        """Numbered, so that the same walk holds in the same order when it is walked again."""
        self.jobs += 1
        return UUID(int=(self.tenants[0] << 64) + self.jobs)

    def chosen(self, picks: list[int]) -> list[Run]:
        """Of the runs that stand open and the last few that ended."""
        ended = [run for run, which in self.runs if run not in self.wallets[which].holds]
        runs = [run for wallet in self.wallets for run in wallet.holds] + ended[-3:]
        return list({runs[pick % len(runs)]: None for pick in picks})

    @rule(
        which=WHICH,
        amount=st.integers(1, 400),
        category=st.sampled_from(["promo", "paid"]),
        priority=st.sampled_from([1, 50]),
        hours=st.sampled_from([None, 1, 2, 3]),
        again=st.booleans(),
    )
    def grant(self, *, which: int, amount: int, category: Any, priority: int, hours: int | None, again: bool) -> None:
        key, tenant = self.key(), self.tenants[which]
        expires_at = None if hours is None else self.base + timedelta(hours=hours - 0.5)
        terms: dict[str, Any] = {"category": category, "priority": priority, "expires_at": expires_at}
        assert ledger.grant(tenant, amount, key, **terms)
        if again:
            assert not ledger.grant(tenant, amount, key, **terms)
            with refused(LedgerConflict):
                ledger.grant(tenant, amount + 1, key, **terms)
        self.wallets[which].grant(Lot(f"grant:{key}", amount, category, priority, hours))
        done["grant"] += 1

    @precondition(some_may_expire)
    @rule()
    def an_hour_passes(self) -> None:
        execute(
            "UPDATE credits_lot SET expires_at = expires_at - interval '1 hour' WHERE account_id IN"
            " (SELECT id FROM credits_account WHERE owner_id = ANY(%s))",
            [self.tenants],
        )
        for lot in [lot for wallet in self.wallets for lot in wallet.lots if lot.hours is not None]:
            lot.hours = (lot.hours or 0) - 1
        done["hour"] += 1

    @precondition(some_are_due)
    @rule()
    def sweep(self) -> None:
        expired = sum(wallet.expire() for wallet in self.wallets)
        assert ledger.expire_due() == expired
        done["sweep of something" if expired else "sweep of nothing"] += 1

    @rule(which=WHICH, amounts=st.lists(st.integers(0, 70), min_size=1, max_size=3), again=st.booleans())
    def hold(self, which: int, amounts: list[int], again: bool) -> None:
        self.place(which, {(self.job(), 1): amount for amount in amounts}, again)

    @precondition(some_were_held)
    @rule(picks=PICK, amount=st.integers(0, 60))
    def replay(self, picks: list[int], amount: int) -> None:
        """A job whose last run has ended runs again, with a hold of its own."""
        last = {job: (run, which) for (job, run), which in self.runs}
        for job in dict.fromkeys(job for job, _ in self.chosen(picks)):
            run, which = last[job]
            if (job, run) not in self.wallets[which].holds:
                self.place(which, {(job, run + 1): amount}, False)
                done["replay"] += 1
                return

    def place(self, which: int, wanted: dict[Run, int], again: bool) -> None:
        wallet, tenant = self.wallets[which], self.tenants[which]
        requests = [HoldRequest(job, run, amount) for (job, run), amount in wanted.items()]
        held, available = wallet.held, wallet.available
        try:
            wallet.hold(wanted)
        except Short:
            with refused(InsufficientCredits) as refusal:
                ledger.hold(tenant, requests, 3600)
            assert (refusal.value.held, refusal.value.available) == (held, available)
            done["hold refused"] += 1
            return
        except OverBudget:
            with refused(BudgetExceeded) as refusal:
                ledger.hold(tenant, requests, 3600)
            assert (refusal.value.budget, refusal.value.used) == (wallet.budget, wallet.used)
            done["hold over budget"] += 1
            return
        for _ in range(1 + again):
            ledger.hold(tenant, requests, 3600)
        if again:
            with refused(LedgerConflict):
                ledger.hold(tenant, [HoldRequest(requests[0].job_id, requests[0].run, requests[0].amount + 1)], 3600)
        self.runs += [(run, which) for run in wanted]
        done["hold"] += 1

    @precondition(some_were_held)
    @rule(picks=PICK, percent=PERCENT, policy=POLICY)
    def settle(self, picks: list[int], percent: int, policy: Any) -> None:
        self.close_as(percent, policy, self.chosen(picks))

    def close_as(self, percent: int, policy: Any, chosen: list[Run]) -> None:
        standing = {run: hold for wallet in self.wallets for run, hold in wallet.holds.items()}
        actuals = {run: (standing[run].amount if run in standing else 50) * percent // 100 for run in chosen}
        closed = ledger.settle([Closing(*run, actuals[run], policy) for run in chosen])
        assert {(answer.job_id, answer.run) for answer in closed} == set(chosen) & set(standing)
        for answer in closed:
            run = (answer.job_id, answer.run)
            assert answer.captured == min(standing[run].amount, actuals[run])
            assert answer.captured + answer.overrun == actuals[run]
            done["overrun" if answer.overrun else "settle"] += 1
        self.close([(answer.job_id, answer.run) for answer in closed], actuals, policy)

    @rule(which=WHICH, amount=st.integers(1, 70), percent=PERCENT)
    def hold_and_settle(self, which: int, amount: int, percent: int) -> None:
        run = (self.job(), 1)
        self.place(which, {run: amount}, False)
        if run in self.wallets[which].holds:
            self.close_as(percent, "absorb", [run])

    @precondition(some_were_held)
    @rule(picks=PICK)
    def release(self, picks: list[int]) -> None:
        chosen = self.chosen(picks)
        released = ledger.release(chosen, "model")
        assert set(released) == {run for run in chosen if any(run in wallet.holds for wallet in self.wallets)}
        self.close(released, None)
        done["release"] += len(released)

    def close(self, runs: list[Run], actuals: dict[Run, int] | None, policy: str = "absorb") -> None:
        for wallet in self.wallets:
            if own := [run for run in runs if run in wallet.holds]:
                wallet.close(own, actuals, policy)

    @precondition(some_were_charged)
    @rule(pick=st.integers(0, 30), amount=st.integers(1, 40), again=st.booleans())
    def refund(self, pick: int, amount: int, again: bool) -> None:
        charged = [(run, wallet) for wallet in self.wallets for run in wallet.left_to_refund]
        (run, wallet), key = charged[pick % len(charged)], self.key()
        if not wallet.refund(run, Lot(f"refund:{key}", amount, priority=REFUND_PRIORITY)):
            with refused(RefundExceedsCharge):
                ledger.refund(*run, amount, key)
            done["refund refused"] += 1
            return
        assert ledger.refund(*run, amount, key)
        if again:
            assert not ledger.refund(*run, amount, key)
            with refused(LedgerConflict):
                ledger.refund(*run, amount + 1, key)
        done["refund"] += 1

    @rule(which=WHICH, limit=st.sampled_from([0, 20, 100]), floor=st.sampled_from([0, -40, -100]))
    def move_the_limits(self, which: int, limit: int, floor: int) -> None:
        wallet, tenant = self.wallets[which], self.tenants[which]
        ledger.set_credit_limit(tenant, limit)
        wallet.limit = limit
        if wallet.set_floor(floor):
            ledger.set_floor(tenant, floor)
        else:
            with refused(FloorInUse):
                ledger.set_floor(tenant, floor)
            done["floor refused"] += 1

    @rule(which=WHICH, budget=st.sampled_from([None, 50, 200]))
    def move_the_budget(self, which: int, budget: int | None) -> None:
        Tenant.objects.filter(pk=self.tenants[which]).update(day_budget=budget)
        self.wallets[which].budget = budget

    @precondition(some_owe)
    @rule(which=WHICH, amount=st.integers(1, 20), again=st.booleans())
    def pay(self, which: int, amount: int, again: bool) -> None:
        wallet, tenant, key = self.wallets[which], self.tenants[which], self.key()
        if amount > wallet.owed:
            with refused(NotOwed):
                ledger.pay_debt(tenant, amount, key)
            return
        assert ledger.pay_debt(tenant, amount, key)
        assert not (again and ledger.pay_debt(tenant, amount, key))
        wallet.owed -= amount
        done["payment"] += 1

    @precondition(some_were_held)
    @rule(sql=st.sampled_from(TAMPERINGS))
    def tamper(self, sql: str) -> None:
        try:
            with transaction.atomic():
                execute("SET CONSTRAINTS ALL IMMEDIATE")
                touched = execute(sql)
        except DatabaseError:
            touched = 0
        assert touched == 0, sql
        done["tamper"] += 1

    @invariant()
    def both_say_the_same(self) -> None:
        for wallet, tenant in zip(getattr(self, "wallets", []), getattr(self, "tenants", []), strict=True):
            balance = ledger.balances(tenant)
            assert (balance.posted, balance.held) == (wallet.posted, wallet.held)
            assert (balance.available, balance.owed) == (wallet.available, wallet.owed)
            assert ledger.budgets(tenant).used_in_day == wallet.used
            assert balance.posted - balance.held >= wallet.floor
            assert found_lots(tenant) == [(lot.source, lot.remaining, lot.reserved) for lot in wallet.lots]

    def teardown(self) -> None:
        ledger.expire_due()  # so that the next run finds nothing of ours to expire
        assert {name: found for name, sql in RULES.items() if (found := rows(sql))} == {}
        for tenant in getattr(self, "tenants", []):
            page, posted = ledger.statement(tenant, limit=1000), ledger.balances(tenant).posted
            assert [entry.posted for entry in page] == [
                posted - sum(e.amount for e in page[:n]) for n in range(len(page))
            ]
        done["run"] += 1


@pytest.mark.django_db
def test_any_sequence_of_verbs_keeps_the_books() -> None:
    run_state_machine_as_test(
        Wallets,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=[Phase.generate, *SHRINK],
            suppress_health_check=list(HealthCheck),
        ),
    )
    print("model:", dict(sorted(done.items())))  # noqa: T201  shown with -s
