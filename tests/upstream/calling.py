"""Calls of an account at a test's provider, and making them with the http adapter."""

import asyncio
from collections.abc import Mapping
from typing import Any

from upstream.adapters import adapter, ask
from upstream.calls import Action, Call, Outcome

HEADERS = {"Authorization": "'Bearer ' + account.credential"}


def call_of(base_url: str, upstream: Mapping[str, Any], **fields: Any) -> Call:
    return Call(
        **{
            "key": "d/1",
            "payload": {"seconds": 2},
            "job": {"id": "j1", "type": "clip", "attempt": 1, "metadata": {}},
            "tenant": {"name": "acme"},
            "account": {"name": "a1", "credential": "k3y-of-a1", "labels": {}, "vars": {}},
            "base_url": base_url,
            "upstream": {"headers": HEADERS, **upstream},
            "callback_url": "http://127.0.0.1/back",
            **fields,
        }
    )


def made(action: Action, call: Call, repeat: bool = False) -> Outcome:
    """What the adapter makes of one real exchange."""

    async def run() -> Outcome:
        http = adapter("http")
        try:
            return await ask(http, action, call, repeat)
        finally:
            await http.close()

    return asyncio.run(run())


def short(found: Outcome) -> tuple[bool, str, str, str]:
    return found.over, found.verdict, found.error_class, found.error_code
