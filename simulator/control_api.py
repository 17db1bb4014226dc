"""How a test steers the provider and reads its book: accounts, faults, marks, report. No credential is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from simulator.accounts import OVER_LIMIT, Account, BadAccount
from simulator.answers import json_answer, refusing
from simulator.book import request_line
from simulator.faults import BadFault, Rule, parse_fault
from simulator.provider import Provider
from simulator.refusals import Refused
from simulator.report import report
from simulator.times import now, seconds

STANDING = ("oob", "over_limit", "ban", "ip_429")
MOST_LINES = 100_000


class ControlApi:
    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/control/accounts", refusing(self.list_accounts)),
            web.post("/control/accounts", refusing(self.declare_accounts)),
            web.delete("/control/accounts/{name}", refusing(self.remove_account)),
            web.get("/control/faults", refusing(self.list_faults)),
            web.post("/control/faults", refusing(self.set_fault)),
            web.delete("/control/faults", refusing(self.clear_faults)),
            web.post("/control/settings", refusing(self.settings)),
            web.post("/control/mark", refusing(self.mark)),
            web.get("/report", refusing(self.report)),
            web.get("/book", refusing(self.executions)),
            web.get("/book/requests", refusing(self.requests)),
        ]

    async def list_accounts(self, _: web.Request) -> web.StreamResponse:
        return json_answer([account.line() for account in self.provider.accounts])

    async def declare_accounts(self, request: web.Request) -> web.StreamResponse:
        """A list of {name, credential, sessions, over_limit?, balance?, banned?}; a known name is changed."""
        written = await _body(request)
        if not isinstance(written, list) or not all(isinstance(item, dict) for item in written):
            raise Refused(400, "bad_body", "a list of accounts is wanted")
        try:
            accounts = [self.provider.accounts.declare(item) for item in written]
        except BadAccount as error:
            raise Refused(400, "bad_account", str(error)) from error
        for account in accounts:
            self.provider.start_waiting(account)
        return json_answer([account.line() for account in accounts])

    async def remove_account(self, request: web.Request) -> web.StreamResponse:
        if not self.provider.accounts.remove(request.match_info["name"]):
            raise Refused(404, "not_found", "no such account")
        return json_answer({"removed": request.match_info["name"]})

    async def list_faults(self, _: web.Request) -> web.StreamResponse:
        rules = self.provider.rules.rules
        return json_answer([{"account": r.account, "times_left": r.times, "fault": r.written} for r in rules])

    async def set_fault(self, request: web.Request) -> web.StreamResponse:
        """{fault: {name: value, …}, account?, probability?, times?, repeats?}"""
        written = await _body(request)
        if not isinstance(written, dict) or not isinstance(written.get("fault"), dict):
            raise Refused(400, "bad_body", "an object with a fault is wanted")
        name = written.get("account") or ""
        if name and self.provider.accounts.named(name) is None:
            raise Refused(404, "not_found", f"no account {name!r}")
        try:
            standing = {key: value for key, value in written["fault"].items() if key in STANDING}
            passing = {key: value for key, value in written["fault"].items() if key not in STANDING}
            rule = _rule(written, name, passing)
            self._stand(name, standing)
            if passing:
                self.provider.rules.add(rule)
        except (ValueError, TypeError) as error:
            raise Refused(400, "bad_fault", str(error)) from error
        return json_answer({"set": written["fault"]})

    async def clear_faults(self, request: web.Request) -> web.StreamResponse:
        """All faults, or with ?account= those of one account."""
        name = request.query.get("account")
        cleared = self.provider.rules.clear(name)
        if name is None:
            self.provider.flooded_until = 0.0
        for account in self._accounts(name or ""):
            account.strangers, account.over_limit_fault, account.banned = 0, "", False
            self.provider.start_waiting(account)
        return json_answer({"cleared": cleared})

    async def settings(self, request: web.Request) -> web.StreamResponse:
        """{"idempotent": bool}: whether a key seen before is joined to its execution."""
        written = await _body(request)
        if not isinstance(written, dict) or not isinstance(written.get("idempotent"), bool) or len(written) != 1:
            raise Refused(400, "bad_body", 'an object {"idempotent": true or false} is wanted')
        self.provider.idempotent = written["idempotent"]
        return json_answer({"idempotent": self.provider.idempotent})

    async def mark(self, _: web.Request) -> web.StreamResponse:
        return json_answer({"mark": self.provider.book.mark()})

    async def report(self, request: web.Request) -> web.StreamResponse:
        """Since the last mark, or with ?since= since that one (0: since the start)."""
        marks = self.provider.book.marks
        since = _number(request, "since", len(marks) - 1, len(marks) - 1)
        return json_answer(report(self.provider.book, self.provider.accounts, marks[since], self.provider.latency.text))

    async def executions(self, request: web.Request) -> web.StreamResponse:
        """The newest executions, oldest of them first."""
        limit = _number(request, "limit", 1000, MOST_LINES)
        lines = [execution.line() for execution in self.provider.book.executions[-limit:]] if limit else []
        return json_answer(lines)

    async def requests(self, request: web.Request) -> web.StreamResponse:
        """The newest requests for work and what became of each, oldest of them first."""
        limit = _number(request, "limit", 1000, MOST_LINES)
        entries = list(self.provider.book.requests)[-limit:] if limit else []
        return json_answer([request_line(entry) for entry in entries])

    def _stand(self, name: str, standing: Mapping[str, Any]) -> None:
        """Faults that are a state of the account or of the provider, until cleared."""
        if (over_limit := standing.get("over_limit")) is not None and over_limit not in OVER_LIMIT:
            raise BadFault(f"over_limit must be one of {', '.join(OVER_LIMIT)}")
        strangers = standing.get("oob", 0)
        if not isinstance(strangers, int) or isinstance(strangers, bool) or strangers < 0:
            raise BadFault("oob must be a number of sessions")
        if "ip_429" in standing:
            self.provider.flooded_until = now() + seconds(standing["ip_429"])
        for account in self._accounts(name):
            account.strangers = strangers if "oob" in standing else account.strangers
            account.over_limit_fault = over_limit or account.over_limit_fault
            account.banned = bool(standing.get("ban", account.banned))
            self.provider.start_waiting(account)

    def _accounts(self, name: str) -> list[Account]:
        if not name:
            return list(self.provider.accounts)
        account = self.provider.accounts.named(name)
        return [] if account is None else [account]


def _rule(written: Mapping[str, Any], account: str, fault: Mapping[str, Any]) -> Rule:
    unknown = set(written) - {"account", "probability", "times", "repeats", "fault"}
    if unknown:
        raise BadFault(f"unknown: {', '.join(sorted(unknown))}")
    probability, times = written.get("probability", 1.0), written.get("times")
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 <= probability <= 1:
        raise BadFault("probability must be between 0 and 1")
    if times is not None and (isinstance(times, bool) or not isinstance(times, int) or times < 1):
        raise BadFault("times must be a whole number from 1")
    return Rule(account, parse_fault(fault), fault, probability, times, written.get("repeats") is True)


async def _body(request: web.Request) -> Any:
    try:
        return json.loads(await request.read())
    except ValueError as error:
        raise Refused(400, "bad_json", "the body is not JSON") from error


def _number(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name, str(default))
    if not text.isdecimal() or int(text) > most:
        raise Refused(400, "bad_number", f"{name} must be a number from 0 to {most}")
    return int(text)
