"""Who calls: the account behind `Authorization: Bearer …`, and the caller's idempotency key."""

from __future__ import annotations

from aiohttp import web

from simulator.accounts import Account
from simulator.provider import Provider
from simulator.refusals import Refused

LONGEST_KEY = 256


def account_of(provider: Provider, request: web.Request, kind: str) -> Account:
    """Refused(401) for a credential nobody has, Refused(403) for a banned account."""
    scheme, _, credential = request.headers.get("Authorization", "").partition(" ")
    account = provider.accounts.by_credential.get(credential) if scheme == "Bearer" else None
    if account is not None and not account.banned:
        return account
    name, refusal = "", Refused(401, "unknown_credential", "no account has this credential")
    if account is not None:
        name, refusal = account.name, Refused(403, "banned", f"{account.name} is banned")
    if kind in ("run", "task"):
        provider.book.counts["received"] += 1
        provider.book.counts["refused"] += 1
        provider.book.request(name, kind, request.headers.get("Idempotency-Key", ""), refusal.code)
    raise refusal


def key_of(request: web.Request) -> str:
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > LONGEST_KEY:
        raise Refused(400, "bad_key", f"an idempotency key has at most {LONGEST_KEY} characters")
    return key
