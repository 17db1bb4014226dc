"""The life of one `manage.py up`: servers, schema, the operator's file, processes; then it watches until stopped."""

import os
import shutil
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from broker_project.supervisor import readiness, roles, room, run_file
from broker_project.supervisor.announcement import announce
from broker_project.supervisor.environment import child_environment, shared_variables
from broker_project.supervisor.errors import StartFailed, StopRequested
from broker_project.supervisor.home import held_home
from broker_project.supervisor.ports import HOST, free_ports, listen_at_or_after
from broker_project.supervisor.processes import Entry, wait_for
from broker_project.supervisor.secrets import load_or_make
from broker_project.supervisor.servers import start_servers
from broker_project.supervisor.spawn import Role, spawn
from broker_project.supervisor.watch import Watch

BROKER_SECONDS = 10.0  # for the workers to reach it; after that they go on trying by themselves
PUBLISH_AGAIN_SECONDS = 5.0
SERVERS = frozenset({"postgres", "valkey"})
APPLICATION = frozenset({"web", "live", *roles.WORKERS, "beat", "flower"})
ALL_ROLES = SERVERS | APPLICATION
# What is asked over HTTP: the variable that says where, and a path that answers once it works.
_SERVED = {"live": ("LIVE_URL", "/healthz"), "web": ("WEB_URL", "/healthz"), "flower": ("FLOWER_URL", "/healthcheck")}


@dataclass(frozen=True)
class Options:
    home: Path
    port: int
    config: Path | None = None
    only: frozenset[str] = ALL_ROLES


class Launch:
    """Makes everything run, tells where it is, and leaves nothing behind."""

    def __init__(self, options: Options, console: Console) -> None:
        self.options = options
        self.home = options.home
        self.watch = Watch(options.home, console)
        self._publish_again_at: float | None = None

    def run(self) -> None:
        """Returns after a requested stop. Raises StartFailed; nothing is left running either way."""
        room.check([self.home])
        with held_home(self.home), self.watch.signals:
            # One left by a killed `up` would send other commands to servers that are gone.
            run_file.remove(self.home)
            try:
                self._start()
                while True:
                    self._watch()
            except StopRequested:
                self.watch.say("Stopping: work in flight is ended first; Ctrl-C again does not wait for it.")
            finally:
                run_file.remove(self.home)
                self.watch.table.stop_all(self.watch.signals.hurry)
            self.watch.say("Stopped.")

    def _start(self) -> None:
        only = self.options.only
        self.secrets = load_or_make(self.home)
        application = bool(only & APPLICATION)
        urls = start_servers(self.watch, self.home, self.secrets, set(SERVERS if application else only))
        places = self._places()
        self.shared = shared_variables(self.home, self.secrets, {**urls, **places})
        if application:
            self._say_what_differs(urls)
            self._prepare()
            self._start_application(places)
        admin = {"user": "admin", "password": self.secrets.admin_password}
        here = {name: places[name] if role in only else "" for role, (name, _) in _SERVED.items()}
        self.run_file = run_file.RunFile(
            here["WEB_URL"], here["FLOWER_URL"], urls["DATABASE_URL"], urls["REDIS_URL"], self.shared, admin
        )
        self._publish()
        seconds = time.monotonic() - self.watch.begun
        running = list(self.watch.table.entries) if only != ALL_ROLES else []
        announce(self.watch.console, self.run_file, self.home, self.options.port, seconds, only=running)

    def _places(self) -> dict[str, str]:
        """Where web, live and Flower are: here, or where the operator says that they run."""
        self.live_port, self.flower_port = free_ports(2)
        ports = {"LIVE_URL": ("live", self.live_port), "FLOWER_URL": ("flower", self.flower_port)}
        self.web: socket.socket | None = None
        if "web" in self.options.only:
            self.web = listen_at_or_after(self.options.port)
            ports["WEB_URL"] = ("web", self.web.getsockname()[1])
        ours = {name: f"http://{HOST}:{port}" for name, (role, port) in ports.items() if role in self.options.only}
        theirs = {name: os.environ.get(name, "") for name in ("WEB_URL", "LIVE_URL", "FLOWER_URL")}
        return {name: url for name, url in {**theirs, **ours}.items() if url}

    def _say_what_differs(self, urls: Mapping[str, str]) -> None:
        """What an operator who brings servers of their own should know now, not when it hurts."""
        keys = [name for name in ("SECRET_KEY", "FIELD_KEYS", "KEY_PEPPERS") if not os.environ.get(name)]
        if os.environ.get("DATABASE_URL") and keys:
            self.watch.say(
                f"{', '.join(keys)} come from {self.home / 'secrets.json'}: all processes that use this database need the same"
            )
        self.broker_answers = all(
            readiness.broker_answers(url) for url in {urls["REDIS_URL"], os.environ.get("BROKER_URL", "")} if url
        )
        if not self.broker_answers:
            self.watch.say(
                "Redis, or the broker, does not answer: jobs are accepted and the sweep runs them, more slowly, until it does"
            )

    def _prepare(self) -> None:
        """Schema, admin login and the operator's file, in one child: each start of Django costs over a second."""
        self.watch.say("The schema is brought up to date")
        environment = {**child_environment(self.shared), "DJANGO_SUPERUSER_PASSWORD": self.secrets.admin_password}
        config = ["--config", str(self.options.config)] if self.options.config else []
        code = wait_for(spawn(roles.command_role(environment, "prepare", *config)), self.watch.pause)
        if code != 0:
            raise StartFailed("The database could not be prepared, or the file was refused: see the lines above.")

    def _start_application(self, places: Mapping[str, str]) -> None:
        # Those of processes that are gone would be counted for ever.
        shutil.rmtree(roles.counters(self.home), ignore_errors=True)
        roles.counters(self.home).mkdir(mode=0o700)
        environment = child_environment(self.shared)
        drain_seconds = float(os.environ.get("DRAIN_SECONDS", "20"))
        if self.web:
            self.watch.table.start(roles.web_role(self.home, environment, self.web.fileno()))
        for role in (
            roles.live_role(self.home, environment, self.live_port),
            *roles.worker_roles(self.home, environment, drain_seconds),
            roles.beat_role(self.home, environment),
        ):
            self._start_if_wanted(role)
        self.watch.say("The processes are started")
        self._await_workers()
        # Flower asks the workers who they are once, when it starts: they should be there.
        login = f"admin:{self.secrets.admin_password}"
        self._start_if_wanted(roles.flower_role(self.home, environment, self.flower_port, login))
        for name, (variable, path) in _SERVED.items():
            url = places.get(variable, "") + path
            self.watch.until_ready(name, partial(_answers_ok, url))

    def _start_if_wanted(self, role: Role) -> None:
        if role.name in self.options.only:
            self.watch.table.start(role)

    def _await_workers(self) -> None:
        """Until they work, and then a while until they take messages, which depends on the broker."""
        for name in roles.WORKERS:
            self.watch.until_ready(name, readiness.worker_sweeps)
        entries = [self.watch.table.entries[name] for name in roles.WORKERS if name in self.watch.table.entries]
        end = time.monotonic() + (BROKER_SECONDS if self.broker_answers else 0.0)
        while not all(readiness.worker_takes_messages(entry) for entry in entries):
            if time.monotonic() > end:
                self.watch.say("The workers sweep and make calls; they take messages as soon as the broker answers")
                return
            self.watch.pause()

    def _watch(self) -> None:
        happened = self.watch.pause()
        due = self._publish_again_at is not None and time.monotonic() > self._publish_again_at
        if happened or due:
            self._publish()

    def _publish(self) -> None:
        """Writes run.json; when the disk has no room for it, again a little later."""
        self._publish_again_at = time.monotonic() + PUBLISH_AGAIN_SECONDS
        with suppress(OSError):
            self.run_file.write(self.home, self.watch.table.listing())
            self._publish_again_at = None


def _answers_ok(url: str, _entry: Entry) -> bool:
    return readiness.answers_ok(url)
