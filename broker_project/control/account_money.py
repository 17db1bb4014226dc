"""What an operator may do with the credits of upstream accounts, each with a reason: take a reading, book a top-up."""

from collections.abc import Mapping, Sequence
from typing import Any

from broker_project.control.money import MoneyOperation, source_of
from broker_project.control.money_forms import ReadingTerms, TopUpTerms, micro
from credits import upstream_accounts
from credits.models import Transfer
from credits.pricing import short_text
from jobs import balances
from jobs.queries.balances import standing
from pool.models import UpstreamAccount
from statemachine.operations import Effect, Refused
from statemachine.sql import Row

NOT_TRACKED = "its credits are not tracked"


class AccountMoney(MoneyOperation):
    """At upstream accounts whose credits are tracked."""

    def concerns(self, row: UpstreamAccount) -> bool:
        return bool(standing([row.pk]))

    def also_at(self, row: UpstreamAccount, data: Mapping[str, Any]) -> list[Any]:
        return list(Transfer.objects.filter(op_key=self.entry_key(row, data)))

    def effects(self, rows: Sequence[UpstreamAccount], data: Mapping[str, Any]) -> list[Effect]:
        found = {account["id"]: account for account in standing([row.pk for row in rows])}
        return [
            self.effect(row, found[row.pk], data) if row.pk in found else Effect(row, "", "", NOT_TRACKED)
            for row in rows
        ]

    def effect(self, row: UpstreamAccount, account: Row, data: Mapping[str, Any]) -> Effect:
        """What would happen to an account that stands so (a row of `balances.standing`)."""
        raise NotImplementedError


class TakeReading(AccountMoney):
    """What the provider says is left, once per page."""

    name, title, icon, form = "reading", "Take a reading", "speed", ReadingTerms
    permission = "credits.add_reading"
    says = (
        "What the provider says is left is kept. Where it differs from the ledger, the difference is booked as drift, unless"
        " it is far off: a wrong reading must not empty a pool. Credits that were bought are booked as a top-up first."
    )

    def mark(self, row: UpstreamAccount) -> str:
        return ":".join(str(account["reading_key"] or "") for account in standing([row.pk]))

    def effect(self, row: UpstreamAccount, account: Row, data: Mapping[str, Any]) -> Effect:
        drift = upstream_accounts.drift_of(micro(data), account["posted"], account["held"])
        if not data["book"] and abs(drift) > (most := balances.alarm(account, account["posted"])):
            then = f"{short_text(drift)} off, more than {short_text(most)}: kept, not booked"
        else:
            then = f"{short_text(drift)} off: {short_text(account['available'] + drift)} available"
        return Effect(row, stands(account), then)

    def entry_key(self, row: UpstreamAccount, data: Mapping[str, Any]) -> str:
        return f"drift:{row.pk}:{source_of(row, data)}"

    def book(self, row: UpstreamAccount, data: Mapping[str, Any]) -> str:
        account = _account(row)
        read = balances.take(account, micro(data), source_of(row, data), book=data["book"])
        if not read.booked:
            return f"{short_text(read.drift)} off: too far to be believed, kept and not booked"
        if not read.drift:
            return "kept; nothing to book, it is as the ledger says"
        return f"{short_text(read.drift)} booked as drift, {short_text(_account(row)['available'])} are available"


class TopUp(AccountMoney):
    """Credits that were bought at the provider, once per page."""

    name, title, icon, form = "top-up", "Book a top-up", "add_card", TopUpTerms
    permission = "credits.add_transfer"
    says = "Credits that were bought at the provider can be used at once. An entry is never taken back, only countered."

    def effect(self, row: UpstreamAccount, account: Row, data: Mapping[str, Any]) -> Effect:
        return Effect(row, stands(account), f"{short_text(account['available'] + micro(data))} available")

    def entry_key(self, row: UpstreamAccount, data: Mapping[str, Any]) -> str:
        return f"topup:{source_of(row, data)}"

    def book(self, row: UpstreamAccount, data: Mapping[str, Any]) -> str:
        _account(row)
        if not upstream_accounts.top_up(row.pool_id, row.pk, micro(data), source_of(row, data)):
            raise Refused("this page was sent before: the top-up is booked already")
        return f"{short_text(micro(data))} credits booked, {short_text(_account(row)['available'])} are available"


def stands(account: Row) -> str:
    """How an account (a row of `balances.standing`) stands, in words."""
    return ", ".join(f"{short_text(account[name])} {name}" for name in ("posted", "held", "available"))


def _account(row: UpstreamAccount) -> Row:
    found = standing([row.pk])
    if not found:
        raise Refused(NOT_TRACKED)
    return found[0]
