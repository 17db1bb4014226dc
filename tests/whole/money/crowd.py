"""Several web processes in front of one running Berth, and crowds of clients that submit through all of them at once."""

import asyncio
import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import httpx

from tests.whole.running import PROJECT, START_SECONDS, Running

HOST = "127.0.0.1"
AGAIN_SECONDS = 0.05
ANSWER_SECONDS = 60
STOP_SECONDS = 15
_numbers = itertools.count(1)
PASSING = {409, 503}  # what a program sends again with the same key


@dataclass(frozen=True)
class Post:
    """One submit that a client is to send until it is told yes or no."""

    api_key: str
    body: dict[str, Any]
    idempotency_key: str = field(default_factory=lambda: f"crowd-{next(_numbers):010}")


@dataclass(frozen=True)
class Answer:
    """What came of a post."""

    post: Post
    status: int
    document: dict[str, Any]


@contextmanager
def web_processes(berth: Running, folder: Path, more: int) -> Iterator[list[str]]:
    """The addresses of Berth's web process and of so many more."""
    environment = {**berth.environment, **berth.run["env"]}
    started = [_start(environment, folder / f"web-{number}.log") for number in range(more)]
    try:
        for process, url in started:
            _await(process, url)
        yield [berth.run["web_url"], *(url for _, url in started)]
    finally:
        for process, _ in started:
            process.terminate()
        for process, _ in started:
            process.wait(STOP_SECONDS)


def submit_all_at_once(urls: Sequence[str], posts: Iterable[Post], clients: int) -> list[Answer]:
    """So many clients, each on a connection of its own to one of the web processes, send all posts between them."""
    waiting = iter(list(posts))

    async def client(session: aiohttp.ClientSession, url: str) -> list[Answer]:
        return [await _sent(session, url, post) for post in waiting]

    async def crowd() -> list[list[Answer]]:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
            return await asyncio.gather(*(client(session, urls[n % len(urls)]) for n in range(clients)))

    return [answer for answers in asyncio.run(crowd()) for answer in answers]


async def _sent(session: aiohttp.ClientSession, url: str, post: Post) -> Answer:
    """Its answer; what gets none, or one that passes, is sent again with the same key."""
    headers = {"Authorization": f"Bearer {post.api_key}", "Idempotency-Key": post.idempotency_key}
    end = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            async with session.post(f"{url}/v1/jobs", json=post.body, headers=headers) as response:
                answer = Answer(post, response.status, await response.json(content_type=None))
            if answer.status not in PASSING:
                return answer
        except aiohttp.ClientError:  # e.g. an idle connection that the server closed just then
            if time.monotonic() > end:
                raise
        assert time.monotonic() < end, f"no answer that stays within {ANSWER_SECONDS} s"
        await asyncio.sleep(AGAIN_SECONDS)


def _start(environment: dict[str, str], log: Path) -> tuple["subprocess.Popen[bytes]", str]:
    with socket.socket() as listening, log.open("wb") as file:
        listening.bind((HOST, 0))
        listening.listen(1024)
        command = [sys.executable, "-m", "uvicorn", "broker_project.front:app", "--fd", str(listening.fileno())]
        process = subprocess.Popen(
            [*command, "--no-access-log", "--timeout-graceful-shutdown", "1"],
            cwd=PROJECT,
            env={**os.environ, **environment},
            stdout=file,
            stderr=subprocess.STDOUT,
            pass_fds=[listening.fileno()],
        )
        return process, f"http://{HOST}:{listening.getsockname()[1]}"


def _await(process: "subprocess.Popen[bytes]", url: str) -> None:
    """Its socket takes connections from the start; it answers once it is up."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(f"{url}/healthz", timeout=START_SECONDS).is_success:
                return
        except httpx.HTTPError:
            time.sleep(0.05)
    raise TimeoutError(f"a web process does not come up: {process.args}")
