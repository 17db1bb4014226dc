"""`manage.py check_upstream POOL`: what Berth would conclude from the upstream's answers; exit 1 when it cannot tell."""

import asyncio
import json
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from broker_project.trial.live import Step, Trial, compiled
from broker_project.trial.telling import Telling
from credits.pricing import short_text
from jobs import admission, callbacks, inputs
from jobs.models import JobType
from pool.models import Pool, Resource, UpstreamAccount
from pool.secrets import SecretUnreadable
from upstream import balances
from upstream.adapters import UnknownAdapterError
from upstream.calls import Call
from upstream.declared import merged, wants_addresses

Row = TypeVar("Row", JobType, UpstreamAccount)
BALANCE_SECONDS = 25.0
AT_WORK = ("reserved", "busy")
# By whether a payload was sent, and whether anything was asked.
NO_PROBLEM = {
    (
        False,
        True,
    ): "No problem: what is declared compiles, and what was never sent is not known there, as it should be. Nothing was"
    " sent; --submit PAYLOAD sends one",
    (
        False,
        False,
    ): "No problem: what is declared compiles. There is nothing to ask for without sending; --submit PAYLOAD sends one",
    (True, True): "No problem: the payload was sent once, and what came of it is understood",
}


class Command(BaseCommand):
    help = "Tries the declared calls of a pool on the upstream itself and says what would be concluded. Stores nothing."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("pool", metavar="POOL")
        parser.add_argument("--type", metavar="TYPE", help="all job types of the pool, if absent")
        parser.add_argument("--account", metavar="ACCOUNT", help="all accounts of the pool, if absent")
        parser.add_argument(
            "--submit", metavar="PAYLOAD", help="really send this JSON (or @FILE) once, and follow it to its end"
        )
        parser.add_argument("--patience", type=float, metavar="SECONDS", help="at most so long; max_runtime, if absent")

    def handle(self, **options: Any) -> None:
        pool, types, accounts = _found(options)
        payload = None if options["submit"] is None else _payload(options["submit"])
        if options["patience"] is not None and options["patience"] < 0:
            raise CommandError("--patience is a number of seconds, 0 or more")
        if payload is not None:
            if len(types) > 1:
                raise CommandError(f"--submit needs --type: one of {', '.join(found.name for found in types)}")
            _check_payload(types[0], payload)
            accounts = [_with_room(accounts)]
        self.telling = Telling(self._say, self.style.ERROR)
        for account in accounts:
            self._try_account(pool, account)
            for job_type in types:
                self._try_type(pool, job_type, account, payload, options["patience"])
        self.telling.end()
        if why := self.telling.conclusion():
            raise CommandError(why)
        self.stdout.write(NO_PROBLEM[(payload is not None, self.telling.asked)])

    def _try_account(self, pool: Pool, account: UpstreamAccount) -> None:
        if pool.upstream.get("balance") and (call := self._call(pool, None, account, {})):
            [said] = balances.ask([call], BALANCE_SECONDS)
            left = "" if said.left is None else f"{short_text(said.left)} credits left"
            self._show(account.name, "", Step("balance", left, problem=said.problem))

    def _try_type(
        self, pool: Pool, job_type: JobType, account: UpstreamAccount, payload: object, patience: float | None
    ) -> None:
        call = self._call(pool, job_type, account, {} if payload is None else payload)
        if call is None:
            return
        step = compiled(call.upstream) if (call.upstream.get("adapter") or "http") == "http" else None
        if step:
            self._show(account.name, job_type.name, step)
        if step is None or not step.problem:
            seconds = job_type.max_runtime_ms / 1_000 if patience is None else patience
            asyncio.run(self._follow(account.name, job_type.name, call, None if payload is None else seconds))

    async def _follow(self, account: str, job_type: str, call: Call, patience_seconds: float | None) -> None:
        try:
            trial = Trial(call)
        except UnknownAdapterError as error:
            self._show(account, job_type, Step("adapter", "", problem=str(error)))
            return
        try:
            steps = trial.of_nothing() if patience_seconds is None else trial.of_payload(patience_seconds)
            async for step in steps:
                self._show(account, job_type, step)
        finally:
            await trial.close()

    def _call(self, pool: Pool, job_type: JobType | None, account: UpstreamAccount, payload: object) -> Call | None:
        try:
            credential = account.credential
        except SecretUnreadable as error:
            self._show(account.name, "", Step("credential", "", problem=str(error)))
            return None
        declared = merged(pool.upstream, job_type.upstream if job_type else {})
        told = declared.get("mode") == "callback"
        return Call(
            key="",
            payload=_as_sent(payload, job_type, declared),
            job={"id": "check", "type": job_type.name if job_type else "", "attempt": 1, "metadata": {}},
            tenant={"name": "check_upstream"},
            account={"name": account.name, "credential": credential, "labels": account.labels, "vars": account.vars},
            base_url=account.base_url or pool.upstream.get("base_url", ""),
            upstream=declared,
            # As a job's, but nobody waits there: what is told is refused, and asked for instead.
            callback_url=f"{settings.PUBLIC_URL}{callbacks.PATH}/0/check" if told and settings.PUBLIC_URL else "",
        )

    def _show(self, account: str, job_type: str, step: Step) -> None:
        self.telling.step(f"{account} {job_type}".strip(), step)

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _found(options: dict[str, Any]) -> tuple[Pool, list[JobType], list[UpstreamAccount]]:
    pool = Pool.objects.filter(name=options["pool"]).first()
    if pool is None:
        raise CommandError(f"there is no pool {options['pool']!r}")
    types = _named(list(JobType.objects.filter(pool=pool).order_by("name")), options["type"])
    accounts = _named(list(UpstreamAccount.objects.filter(pool=pool).order_by("name")), options["account"])
    for noun, name, rows in (("job type", options["type"], types), ("account", options["account"], accounts)):
        if not rows:
            raise CommandError(f"pool {pool.name} has no {noun}" + (f" {name!r}" if name else ""))
    return pool, types, accounts


def _named(rows: list[Row], name: str | None) -> list[Row]:
    return [row for row in rows if name in (None, row.name)]


def _check_payload(job_type: JobType, payload: object) -> None:
    """By its type's payload_schema, in the words of the API, which would not let such a job come so far."""
    try:
        admission.check_schema(job_type, payload)
    except admission.InvalidField as error:
        raise CommandError(f"--submit: {error}; nothing was sent") from None


def _with_room(accounts: list[UpstreamAccount]) -> UpstreamAccount:
    """The first with a session that is not at work. Drain one before: a job may be given the session meanwhile."""
    for account in accounts:
        if Resource.objects.filter(account=account).exclude(state__in=AT_WORK).exists():
            return account
    raise CommandError("every session is at work; drain one, wait for its end, and try again")


def _as_sent(payload: object, job_type: JobType | None, declared: Mapping[str, Any]) -> object:
    """With its files as a job of the type would be sent."""
    seconds = job_type.max_runtime_ms / 1_000 if job_type else 0.0
    sent = inputs.as_sent(payload, inputs.token_for_trial(seconds), wants_addresses(declared))
    if why := inputs.unsendable(sent):
        hint = "; set PUBLIC_URL" if why[0] == inputs.NO_ADDRESS else ""
        raise CommandError(f"--submit: {why[1]}{hint}")
    return sent


def _payload(text: str) -> object:
    try:
        return json.loads(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except (OSError, ValueError) as error:
        raise CommandError(f"--submit is JSON, or @FILE: {error}") from None
