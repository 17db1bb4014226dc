"""The life of one `manage.py up`: servers, schema, the operator's file, processes; then it watches until stopped."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from broker_project.supervisor import roles, run_file
from broker_project.supervisor.announcement import announce
from broker_project.supervisor.environment import child_environment, shared_variables
from broker_project.supervisor.errors import StartFailed, StopRequested
from broker_project.supervisor.home import held_home
from broker_project.supervisor.ports import HOST, free_ports, listen_at_or_after
from broker_project.supervisor.postgres import EmbeddedPostgres
from broker_project.supervisor.processes import TICK_SECONDS, Entry, ProcessTable, wait_for
from broker_project.supervisor.readiness import answers_ok, worker_is_ready
from broker_project.supervisor.secrets import load_or_make
from broker_project.supervisor.signals import StopSignals
from broker_project.supervisor.spawn import Role, spawn
from broker_project.supervisor.valkey import EmbeddedValkey

START_SECONDS = 120.0
DEATHS_UNTIL_GIVEN_UP = 4
SERVERS = frozenset({"postgres", "valkey"})
APPLICATION = frozenset({"web", "live", *roles.WORKERS, "beat", "flower"})
ALL_ROLES = SERVERS | APPLICATION


@dataclass(frozen=True)
class Options:
    home: Path
    port: int
    config: Path | None = None
    only: frozenset[str] = ALL_ROLES


class Launch:
    """Everything in one thread: each wait also reaps, restarts and looks for a request to stop."""

    def __init__(self, options: Options, console: Console) -> None:
        self.options = options
        self.console = console
        self.home = options.home
        self.table = ProcessTable()
        self.signals = StopSignals()
        self.begun = time.monotonic()

    def run(self) -> None:
        """Returns after a requested stop. Raises StartFailed; nothing is left running either way."""
        with held_home(self.home), self.signals:
            # One left by a killed `up` would send other commands to servers that are gone.
            run_file.remove(self.home)
            try:
                self._start()
                self._watch()
            except StopRequested:
                self.console.print("Stopping: work in flight is ended first; Ctrl-C again does not wait for it.")
            finally:
                run_file.remove(self.home)
                self.table.stop_all(self.signals.hurry)
            self.console.print("Stopped.")

    def _start(self) -> None:
        self.secrets = load_or_make(self.home)
        postgres_port, valkey_port, self.live_port, self.flower_port = free_ports(4)
        urls = self._start_servers(postgres_port, valkey_port)
        web_url = flower_url = ""
        if self.options.only & APPLICATION:
            self.web = listen_at_or_after(self.options.port)
            web_url = f"http://{HOST}:{self.web.getsockname()[1]}"
            flower_url = f"http://{HOST}:{self.flower_port}"
            urls |= {"WEB_URL": web_url, "LIVE_URL": f"http://{HOST}:{self.live_port}", "FLOWER_URL": flower_url}
        self.shared = shared_variables(self.home, self.secrets, urls)
        if self.options.only & APPLICATION:
            self._prepare()
            self._start_application(web_url, flower_url)
        admin = {"user": "admin", "password": self.secrets.admin_password}
        self.run_file = run_file.RunFile(
            web_url, flower_url, urls["DATABASE_URL"], urls["REDIS_URL"], self.shared, admin
        )
        self._publish()
        announce(self.console, self.run_file, self.home, self.options.port, time.monotonic() - self.begun)

    def _start_servers(self, postgres_port: int, valkey_port: int) -> dict[str, str]:
        """Starts what the operator did not bring; both at once."""
        urls = {name: os.environ.get(name, "") for name in ("DATABASE_URL", "REDIS_URL")}
        application = bool(self.options.only & APPLICATION)
        valkey = postgres = None
        if not urls["REDIS_URL"] and (application or "valkey" in self.options.only):
            valkey = EmbeddedValkey(self.home, valkey_port, self.secrets.redis_password)
            self.table.start(valkey.role(self._log("valkey")))
            urls["REDIS_URL"] = valkey.url
        if not urls["DATABASE_URL"] and (application or "postgres" in self.options.only):
            postgres = EmbeddedPostgres(self.home, postgres_port, self.secrets.database_password)
            self._say(f"Postgres 18 runs {postgres.place.way}, with its data in {postgres.place.data}")
            postgres.initialise()
            self.table.start(postgres.role(self._log("postgres")))
            urls["DATABASE_URL"] = postgres.url
        if valkey:
            self._await("valkey", valkey.answers)
        if postgres:
            self._await("postgres", postgres.answers)
            postgres.create_database()
        return urls

    def _prepare(self) -> None:
        """Schema, admin login and the operator's file, in one child: each start of Django costs over a second."""
        self._say("The schema is brought up to date")
        environment = {**child_environment(self.shared), "DJANGO_SUPERUSER_PASSWORD": self.secrets.admin_password}
        config = ["--config", str(self.options.config)] if self.options.config else []
        code = wait_for(spawn(roles.command_role(environment, "prepare", *config)), self._pause)
        if code != 0:
            raise StartFailed("The database could not be prepared, or the file was refused: see the lines above.")

    def _start_application(self, web_url: str, flower_url: str) -> None:
        environment = child_environment(self.shared)
        drain_seconds = float(os.environ.get("DRAIN_SECONDS", "20"))
        wanted = [
            *roles.server_roles(self.home, environment, self.web.fileno(), self.live_port),
            *roles.worker_roles(self.home, environment, drain_seconds),
            roles.beat_role(self.home, environment),
        ]
        self._say("Web, live, workers and beat are started")
        for role in wanted:
            self._start_if_wanted(role)
        for name in roles.WORKERS:
            self._await(name, partial(self._worker_is_ready, name))
        # Flower asks the workers who they are once, when it starts: they must be there.
        login = f"admin:{self.secrets.admin_password}"
        self._start_if_wanted(roles.flower_role(self.home, environment, self.flower_port, login))
        self._await("live", partial(answers_ok, f"http://{HOST}:{self.live_port}/healthz"))
        self._await("web", partial(answers_ok, f"{web_url}/healthz"))
        self._await("flower", partial(answers_ok, f"{flower_url}/healthcheck"))

    def _start_if_wanted(self, role: Role) -> None:
        if role.name in self.options.only:
            self.table.start(role)

    def _await(self, name: str, is_ready: Callable[[], bool]) -> None:
        """Waits for a role that was started. Raises StartFailed when it takes too long, or when any role keeps dying."""
        if name not in self.table.entries:
            return
        entry, end = self.table.entries[name], time.monotonic() + START_SECONDS
        while entry.process is None or not is_ready():
            self._pause()
            dying = [each for each in self.table.entries.values() if each.deaths >= DEATHS_UNTIL_GIVEN_UP]
            if dying or time.monotonic() > end:
                raise StartFailed(_last_words(dying[0] if dying else entry))

    def _worker_is_ready(self, name: str) -> bool:
        return worker_is_ready(self.table.entries[name])

    def _watch(self) -> None:
        while True:
            if self._pause():
                self._publish()

    def _pause(self) -> bool:
        """One short rest; says whether a process died or came back. Raises StopRequested."""
        self.signals.check()
        time.sleep(TICK_SECONDS)
        happened = self.table.tick()
        for line in happened:
            self._say(line)
        return bool(happened)

    def _publish(self) -> None:
        self.run_file.write(self.home, self.table.listing())

    def _log(self, name: str) -> Path:
        return self.home / "logs" / f"{name}.log"

    def _say(self, line: str) -> None:
        self.console.print(
            f"[dim]{time.monotonic() - self.begun:5.1f} s[/dim]  {line}", highlight=False, soft_wrap=True
        )


def _last_words(entry: Entry) -> str:
    tail = "\n".join(entry.log_text().splitlines()[-15:])
    return f"{entry.role.name} does not come up. The end of {entry.role.log}:\n{tail}"
