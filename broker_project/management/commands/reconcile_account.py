"""`manage.py reconcile_account`: what upstream accounts have left, by the ledger and by their provider; exit 1 on an alarm."""

import json
import uuid
from argparse import ArgumentParser
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from credits.errors import PriceError
from credits.pricing import balance_to_micro, decimal_text, short_text
from credits.upstream_accounts import Read
from jobs import balances
from jobs.queries.balances import standing
from pool.models import UpstreamAccount
from statemachine.actors import at_the_shell
from statemachine.sql import Row
from upstream.quantities import counted

IN_DOUBT = (
    "were credits bought: book the top-up and read again; else --reading again with --book, once it is known to be true"
)
OUTDATED = "something was booked on the account since: this reading is older than that, read again"
AMOUNTS = ("posted", "held", "available", "spent", "drift")


class Command(BaseCommand):
    help = "Shows what upstream accounts have left, takes a reading of one, or asks their providers for readings."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("accounts", nargs="*", metavar="POOL/ACCOUNT", help="all that are tracked, if absent")
        parser.add_argument("--reading", metavar="CREDITS", help="the provider says that so much is left")
        parser.add_argument("--key", metavar="TEXT", help="of the reading: the same key again books nothing")
        parser.add_argument(
            "--most", metavar="CREDITS", help="how far off a reading may be; as the pool says, if absent"
        )
        parser.add_argument("--book", action="store_true", help="book the reading however far off it is")
        parser.add_argument("--ask", action="store_true", help="ask the providers now, where their pool says how")
        parser.add_argument("--json", action="store_true", help="print {alarms, accounts: [{account, posted, …}]}")

    def handle(self, **options: Any) -> None:
        _check(options)
        most = None if options["most"] is None else _credits("--most", options["most"], least=0)
        accounts = _found(options["accounts"])
        problems: dict[int, str] = {}
        self.asked: set[int] = set()
        if options["reading"] is not None:
            self._take(accounts, most, options)
        if options["ask"]:
            problems = self._ask(accounts, most, options)
        self._report(standing([account["id"] for account in accounts]), problems, options)

    def _take(self, accounts: list[Row], most: int | None, options: dict[str, Any]) -> None:
        said = _credits("--reading", options["reading"])
        # A key that is given says nothing of who gives it: another may repeat the same.
        key = f"operator:{options['key']}" if options["key"] else f"{at_the_shell()}:{uuid.uuid4()}"
        read = balances.take(accounts[0], said, key, book=options["book"], most=most)
        if read.said != said:
            raise CommandError(f"--key: {options['key']} was used for a reading of {short_text(read.said)}; that stays")
        self._said(accounts[0], read, options)
        if not read.booked and options["book"]:
            raise CommandError(f"--key: {options['key']} was used before, and not booked then; take another key")

    def _ask(self, accounts: list[Row], most: int | None, options: dict[str, Any]) -> dict[int, str]:
        """Why accounts that were asked said nothing."""
        asked = [account for account in accounts if account["upstream"].get("balance")]
        for account in accounts if options["accounts"] else ():
            if account not in asked:
                raise CommandError(f"--ask: the pool of {account['name']} does not say how; it has no `balance`")
        if accounts and not asked:
            raise CommandError(f"--ask: nobody can be asked; {_unasked(accounts)}")
        self.asked = {account["id"] for account in asked}
        if len(asked) < len(accounts) and not options["json"]:
            self.stdout.write(f"not asked: {_unasked([each for each in accounts if each not in asked])}")
        found = balances.ask_all(asked, book=options["book"], most=most)
        for concluded in found:
            if concluded.read is not None:
                self._said(concluded.account, concluded.read, options)
        return {concluded.account["id"]: concluded.problem for concluded in found if concluded.read is None}

    def _said(self, account: Row, read: Read, options: dict[str, Any]) -> None:
        if options["json"]:
            return
        done = "nothing to book" if not read.drift else "booked as drift" if read.booked else "NOT booked: too far off"
        between = f"{short_text(read.posted - read.held)} to {short_text(read.posted)}"
        self.stdout.write(
            f"{account['name']}: the provider says {short_text(read.said)}, the ledger {between}:"
            f" {short_text(read.drift)} off, {done}"
        )

    def _report(self, rows: list[Row], problems: dict[int, str], options: dict[str, Any]) -> None:
        alarming = {row["id"] for row in rows if balances.is_alarming(row)}
        alarms = len(alarming | set(problems))
        if options["json"]:
            documents = [
                {**_document(row, row["id"] in alarming, problems.get(row["id"])), "asked": row["id"] in self.asked}
                for row in rows
            ]
            self.stdout.write(json.dumps({"alarms": alarms, "accounts": documents}, default=str))
        else:
            for row in rows:
                self._show(row, row["id"] in alarming, problems.get(row["id"]))
            if not rows:
                self.stdout.write("no account is tracked: none says its credits in the configuration")
        if alarms:
            verb = "needs" if alarms == 1 else "need"
            raise CommandError(f"{alarms} of {counted(len(rows), 'account')} {verb} a look")

    def _show(self, row: Row, alarming: bool, problem: str | None) -> None:
        said = ", ".join(f"{short_text(row[name])} {name}" for name in AMOUNTS)
        self.stdout.write(f"{'✗' if alarming or problem else '✓'} {row['name']}: {said}")
        if problem:
            self.stdout.write(f"    asked now, no reading: {problem}")
        if row["read_at"] is None:
            self.stdout.write("    never read")
            return
        age = timedelta(seconds=int(row["age_seconds"]))
        booked = "booked" if row["booked"] else "NOT booked: too far off"
        self.stdout.write(f"    read {age} ago: {short_text(row['said'])}, {short_text(row['off'])} off, {booked}")
        if not row["booked"]:
            self.stdout.write(f"    {OUTDATED if row['outdated'] else IN_DOUBT}")


def _unasked(accounts: list[Row]) -> str:
    pools = list(dict.fromkeys(account["pool"] for account in accounts))
    have = "has" if len(pools) == 1 else "have"
    return f"{counted(len(accounts), 'account')} of {', '.join(pools)}, which {have} no `balance` that says how"


def _document(row: Row, alarming: bool, problem: str | None) -> dict[str, Any]:
    reading = None
    if row["read_at"] is not None:
        amounts = {name: decimal_text(row[name]) for name in ("said", "off")}
        told = {
            "key": row["reading_key"],
            "at": row["read_at"].isoformat(),
            "age_seconds": round(row["age_seconds"], 1),
            "outdated": row["outdated"],
        }
        reading = {**amounts, "booked": row["booked"], **told}
    document = {"account": row["name"], **{name: decimal_text(row[name]) for name in AMOUNTS}, "reading": reading}
    return {**document, "alarm": alarming, "problem": problem}


def _check(options: dict[str, Any]) -> None:
    """Arguments that make no sense together."""
    if options["reading"] is not None and options["ask"]:
        raise CommandError("--ask: the provider is asked, or --reading says what it said; not both")
    if options["key"] is not None and options["reading"] is None:
        raise CommandError("--key: is the key of a --reading")
    if options["most"] is not None and options["reading"] is None and not options["ask"]:
        raise CommandError("--most: bounds a --reading, or what --ask finds")
    if options["book"] and options["reading"] is None and not options["ask"]:
        raise CommandError("--book: books a --reading, or what --ask finds")
    if options["reading"] is not None and len(options["accounts"]) != 1:
        raise CommandError("--reading: is of exactly one POOL/ACCOUNT")


def _found(names: list[str]) -> list[Row]:
    """The tracked accounts of these names; none named: all."""
    tracked = standing()
    by_name = {row["name"]: row for row in tracked}
    for name in names:
        if name not in by_name:
            known = {str(account) for account in UpstreamAccount.objects.select_related("pool")}
            what = "its credits are not tracked" if name in known else "there is no such account; it is POOL/ACCOUNT"
            raise CommandError(f"{name}: {what}")
    return [by_name[name] for name in dict.fromkeys(names)] if names else tracked


def _credits(argument: str, text: str, least: int | None = None) -> int:
    try:
        amount = balance_to_micro(Decimal(text))
    except (InvalidOperation, PriceError) as error:
        raise CommandError(f"{argument}: {text!r} is no number of credits") from error
    if least is not None and amount < least:
        raise CommandError(f"{argument}: {text} is below {least}")
    return amount
