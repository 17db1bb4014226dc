"""What an operator may do with money, each with a reason: grant credits, set a credit line, refund a charge.

Another operation of this kind is a `MoneyOperation` with a form that begins with `WithReason` and a `book`. Its record is
a part of the deed and is found at the row, at its tenant and, where it has an `entry_key`, at that entry of the ledger.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from broker_project.control.money_forms import (
    GrantTerms,
    LineTerms,
    PaymentTerms,
    RefundTerms,
    WithReason,
    micro,
    said_moment,
)
from credits import ledger
from credits.charges import Charge, charges_of
from credits.errors import CreditsError, NoWallet
from credits.lines import Line, line_of, set_line
from credits.models import Transfer
from credits.pricing import short_text
from jobs.models import Job
from jobs.states import JOB
from statemachine.operations import Effect, Operation, Refused
from tenants.models import Tenant

NOTHING = Charge(0, 0)


class MoneyOperation(Operation):
    """Books and keeps the reason in one transaction; what the ledger refuses is refused in its words."""

    form = WithReason
    record_is_part = True

    def book(self, row: Any, data: Mapping[str, Any]) -> str:
        """Takes the verbs of the ledger; returns what was done, in words. Raises Refused or any CreditsError."""
        raise NotImplementedError

    def entry_key(self, row: Any, data: Mapping[str, Any]) -> str:
        """The `op_key` of the entry it makes, made from the page's token so that a page sent twice books once."""
        return ""

    def perform(self, row: Any, data: Mapping[str, Any]) -> str:
        try:
            return self.book(row, data)
        except CreditsError as why:
            raise Refused(str(why)) from why

    def also_at(self, row: Any, data: Mapping[str, Any]) -> list[Any]:
        tenant = [] if isinstance(row, Tenant) else [row.tenant]
        return [*tenant, *Transfer.objects.filter(op_key=self.entry_key(row, data) or None)]


class TenantMoney(MoneyOperation):
    """At tenants that pay by credits."""

    def concerns(self, row: Tenant) -> bool:
        return row.billing == Tenant.Billing.CREDITS

    def effects(self, rows: Sequence[Tenant], data: Mapping[str, Any]) -> list[Effect]:
        return [self._effect(tenant, data) for tenant in rows]

    def effect(self, tenant: Tenant, line: Line, data: Mapping[str, Any]) -> Effect:
        """What would happen to a tenant whose wallet stands so."""
        raise NotImplementedError

    def _effect(self, tenant: Tenant, data: Mapping[str, Any]) -> Effect:
        try:
            return self.effect(tenant, line_of(tenant.pk), data)
        except NoWallet:
            return Effect(tenant, "no wallet", "", "it has no wallet")


class Grant(TenantMoney):
    """Credits for a tenant, once per page: sending the page again books nothing."""

    name, title, icon, form = "grant", "Grant credits", "add_card", GrantTerms
    permission = "credits.add_transfer"
    says = "The credits are booked at once and can be used at once. An entry is never taken back, only countered."

    def effect(self, tenant: Tenant, line: Line, data: Mapping[str, Any]) -> Effect:
        now = f"{short_text(line.available)} available, {short_text(ledger.balances(tenant.pk).held)} held"
        until = f"; {short_text(micro(data))} of it {said_moment(data['expires_at'])}" if data["expires_at"] else ""
        return Effect(tenant, now, f"{short_text(line.available + micro(data))} available{until}")

    def entry_key(self, row: Tenant, data: Mapping[str, Any]) -> str:
        return f"grant:{source_of(row, data)}"

    def book(self, row: Tenant, data: Mapping[str, Any]) -> str:
        booked = ledger.grant(
            row.pk,
            micro(data),
            source_of(row, data),
            category=data["category"],
            priority=data["priority"],
            expires_at=data["expires_at"],
        )
        if not booked:
            raise Refused("this page was sent before: the credits are booked already")
        available = short_text(ledger.balances(row.pk).available)
        return f"{short_text(micro(data))} credits granted, {available} are available"


class CreditLine(TenantMoney):
    """How far below zero a tenant's holds may go: limit and floor of its wallet, in one."""

    name, title, icon, form = "credit-line", "Set the credit line", "credit_score", LineTerms
    permission = "credits.change_balance"
    says = (
        "How far below zero the tenant may go. What is used and held on credit stays: while that is more than the line, "
        "the floor stays where it is and nothing new is admitted on credit."
    )

    def mark(self, row: Tenant) -> str:
        try:
            line = line_of(row.pk)
        except NoWallet:
            return ""
        return f"{line.limit}:{line.floor}"

    def effect(self, tenant: Tenant, line: Line, data: Mapping[str, Any]) -> Effect:
        then = line.moved_to(micro(data))
        refused = "it stands so already" if (then.limit, then.floor) == (line.limit, line.floor) else ""
        now = f"{_line(line)}; {short_text(line.in_use)} used and held on credit"
        return Effect(tenant, now, f"{_line(then)}{_kept(then)}", refused)

    def book(self, row: Tenant, data: Mapping[str, Any]) -> str:
        then = set_line(row.pk, micro(data))
        return f"{_line(then)}{_kept(then)}"


class Payment(TenantMoney):
    """Of what the tenant owes for usage above its holds, once per page."""

    name, title, icon, form = "payment", "Book a payment", "payments", PaymentTerms
    permission = "credits.add_transfer"
    says = (
        "What was owed counts against the tenant's credits until it is paid. A payment is no grant: it adds no credits."
    )

    def concerns(self, row: Tenant) -> bool:
        """Also at one that is no longer billed: it owes what it owes."""
        return _owed(row) > 0

    def mark(self, row: Tenant) -> str:
        return str(_owed(row))

    def effect(self, tenant: Tenant, line: Line, data: Mapping[str, Any]) -> Effect:
        owed = _owed(tenant)
        now, amount = f"owes {short_text(owed)}, {short_text(line.available)} available", micro(data) or owed
        if not owed or amount > owed:
            return Effect(tenant, now, "", f"only {short_text(owed)} are owed" if owed else "it owes nothing")
        return Effect(tenant, now, f"owes {short_text(owed - amount)}, {short_text(line.available + amount)} available")

    def entry_key(self, row: Tenant, data: Mapping[str, Any]) -> str:
        return f"repay:{source_of(row, data)}"

    def book(self, row: Tenant, data: Mapping[str, Any]) -> str:
        amount = micro(data) or _owed(row)
        if not amount:
            raise Refused("it owes nothing")
        if not ledger.pay_debt(row.pk, amount, source_of(row, data)):
            raise Refused("this page was sent before: the payment is booked already")
        return f"a payment of {short_text(amount)} booked, {short_text(_owed(row))} are still owed"


class Refund(MoneyOperation):
    """A part or all of what the job's last run was charged, once per page."""

    name, title, icon, form = "refund", "Refund", "undo", RefundTerms
    permission = "credits.add_transfer"
    says = "Gives credits back at once; they never expire. All refunds of a run together are at most its charge."

    def concerns(self, row: Job) -> bool:
        return row.charged > 0 and row.state in JOB.terminal and _charge(row).left > 0

    def mark(self, row: Job) -> str:
        return f"{row.run}:{_charge(row).refunded}"

    def effects(self, rows: Sequence[Job], data: Mapping[str, Any]) -> list[Effect]:
        charges = charges_of(job.pk for job in rows)
        return [self._effect(job, charges.get((job.pk, job.run), NOTHING), data) for job in rows]

    def entry_key(self, row: Job, data: Mapping[str, Any]) -> str:
        return f"refund:{source_of(row, data)}"

    def book(self, row: Job, data: Mapping[str, Any]) -> str:
        amount = micro(data) or _charge(row).left
        if not amount:
            raise Refused(_nothing_left(_charge(row)))
        if not ledger.refund(row.pk, row.run, amount, source_of(row, data)):
            raise Refused("this page was sent before: the refund is booked already")
        available = short_text(ledger.balances(row.tenant_id).available)
        return f"{short_text(amount)} credits refunded, {row.tenant} has {available} available"

    def _effect(self, job: Job, charge: Charge, data: Mapping[str, Any]) -> Effect:
        now = f"charged {short_text(charge.charged)}, refunded {short_text(charge.refunded)} so far, "
        now += f"{short_text(charge.left)} left"
        amount = micro(data) or charge.left
        if not charge.left:
            return Effect(job, now, "", _nothing_left(charge))
        if amount > charge.left:
            return Effect(job, now, "", f"only {short_text(charge.left)} credits are left of the charge")
        left = short_text(charge.left - amount)
        return Effect(job, now, f"{short_text(amount)} go back to {job.tenant}; {left} left")


def source_of(row: Any, data: Mapping[str, Any]) -> str:
    """Of an entry: the page and the row."""
    return f"admin:{data['token']}:{row.pk}"


def _owed(tenant: Tenant) -> int:
    try:
        return ledger.balances(tenant.pk).owed
    except NoWallet:
        return 0


def _charge(job: Job) -> Charge:
    return charges_of([job.pk]).get((job.pk, job.run), NOTHING)


def _nothing_left(charge: Charge) -> str:
    return "nothing is left of the charge" if charge.charged else "it was charged nothing"


def _line(line: Line) -> str:
    return f"line {short_text(line.limit)}, floor {short_text(line.floor)}, {short_text(line.available)} available"


def _kept(line: Line) -> str:
    """What is worth saying of a floor that did not go with its limit."""
    if line.floor == -line.limit:
        return ""
    return f"; the floor stays: {short_text(line.in_use)} are used and held on credit"
