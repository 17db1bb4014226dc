"""`python -m simulator`: declares the accounts, listens, and ends cleanly on SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
from pathlib import Path

import uvloop
from aiohttp import web

from simulator.book import Book
from simulator.control_api import ControlApi
from simulator.faults import Rules
from simulator.provider import Provider
from simulator.sync_api import SyncApi
from simulator.task_api import TaskApi
from simulator.times import Latency

HOST = "127.0.0.1"
FLUSH_SECONDS = 0.5
LARGEST_BODY_BYTES = 10_000_000
# Long, so that a quiet connection is never closed under a caller about to use it.
KEEP_ALIVE_SECONDS = 3600.0
SHUTDOWN_SECONDS = 0.2


def main() -> None:
    parser = _parser()
    options = parser.parse_args()
    try:
        provider = _provider(options)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    try:
        uvloop.run(_serve(provider, options.host, options.port))
    except OSError as error:
        parser.error(f"cannot listen at {options.host}:{options.port}: {error.strerror}")


async def _serve(provider: Provider, host: str, port: int) -> None:
    application = web.Application(client_max_size=LARGEST_BODY_BYTES)
    for api in (SyncApi(provider), TaskApi(provider), ControlApi(provider)):
        application.add_routes(api.routes())
    runner = web.AppRunner(
        application,
        access_log=None,
        handler_cancellation=True,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=1024).start()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    print(f"simulator ready http://{host}:{runner.addresses[0][1]}", flush=True)
    try:
        while not stopped.is_set():
            await _wait(stopped, FLUSH_SECONDS)
            provider.book.flush()
    finally:
        await runner.cleanup()
        await provider.callbacks.close()
        provider.book.close()


async def _wait(event: asyncio.Event, most_seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), most_seconds)
    except TimeoutError:
        return


def _provider(options: argparse.Namespace) -> Provider:
    dice = random.Random(options.seed)
    provider = Provider(
        latency=Latency.parse(options.latency),
        book=Book(options.book),
        rules=Rules(dice),
        dice=dice,
        idempotent=not options.no_idempotency,
    )
    if options.accounts_file is not None:
        for written in json.loads(options.accounts_file.read_text(encoding="utf-8")):
            provider.accounts.declare(written)
    for number in range(1, options.accounts + 1):
        name = f"{options.prefix}{number:03d}"
        credential = f"{options.credential_prefix}{name}"
        provider.accounts.declare(
            {"name": name, "credential": credential, "sessions": options.sessions, "over_limit": options.over_limit}
        )
    return provider


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulator", description="A strict fake provider of capped sessions.")
    parser.add_argument("--host", default=HOST, help="where it listens (default: this machine only)")
    parser.add_argument("--port", type=int, default=0, help="0 (the default): any free one, printed when ready")
    parser.add_argument("--accounts", type=int, default=0, help="how many to declare: acct-001, acct-002, …")
    parser.add_argument("--sessions", type=int, default=1, help="sessions of each")
    parser.add_argument("--prefix", default="acct-", help="of their names")
    parser.add_argument("--credential-prefix", default="sim-", help="a credential is this and the account's name")
    parser.add_argument("--over-limit", default="reject", help="reject, queue or ban")
    parser.add_argument("--accounts-file", type=Path, help="JSON: a list of accounts, as POST /control/accounts takes")
    parser.add_argument("--latency", default="200ms", help="200ms, 2s, or uniform:100ms:300ms")
    parser.add_argument("--book", type=Path, help="append requests and executions to this file as JSON lines")
    parser.add_argument("--no-idempotency", action="store_true", help="a key seen before is executed again")
    parser.add_argument("--seed", type=int, default=1, help="of latencies and probabilities")
    return parser


if __name__ == "__main__":
    main()
