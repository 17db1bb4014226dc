"""`manage.py restored`: this database went back, or was promoted; pools are closed until what was lost is known or over."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from broker_project.doctor.of_processes import is_role
from broker_project.management.moments import FORM, past_moment
from broker_project.models import AuditFigure
from jobs import reopening, restoring
from jobs.queries import server
from jobs.queries.restoring import quarantined
from pool.models import Pool
from statemachine.actors import acting_as, at_the_shell, current_actor
from statemachine.patience import patient
from upstream.quantities import counted

_APPLY = "apply the configuration (`manage.py apply FILE`): what was made in the lost time is not there"
APPLY_FIRST = f"Before anything starts, {_APPLY}"
APPLY_NOW = f"Now {_APPLY}"
OF_CLOSING = ("quiet_since", "went_back_to", "while_running")


class Command(BaseCommand):
    help = (
        "After a restore, or the promotion of a replica that may have lost commits: closes all pools until it is known what"
        " the lost commits had begun. They open by themselves; --status says when, --open opens one now."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--status", action="store_true", help="only say which pools are closed, and until when")
        what.add_argument("--open", metavar="POOL", help="you know that nothing of before runs in it: open it now")
        what.add_argument(
            "--nothing-lost", action="store_true", help="you know that no commit was lost: all stays open"
        )
        parser.add_argument("--reason", default="", help="how you know; needed with --open and --nothing-lost")
        parser.add_argument(
            "--repeat", action="store_true", help="with --open: its waiting jobs did not run, or may run twice"
        )
        parser.add_argument(
            "--while-running",
            action="store_true",
            help="also while processes of Berth are connected (a promoted replica)",
        )
        parser.add_argument(
            "--went-back-to", type=past_moment, metavar="TIME", help=f"commits after this time are lost, {FORM}"
        )
        parser.add_argument(
            "--quiet-since",
            type=past_moment,
            metavar="TIME",
            help=f"no process has called an upstream since, {FORM}; now, if absent",
        )

    def handle(self, **options: Any) -> None:
        if (options["open"] or options["nothing_lost"]) and not options["reason"].strip():
            raise CommandError("--reason: say how you know; it is written down")
        if options["repeat"] and not options["open"]:
            raise CommandError("--repeat: goes with --open POOL")
        given = [f"--{name.replace('_', '-')}" for name in OF_CLOSING if options[name]]
        if (options["status"] or options["open"]) and given:
            raise CommandError(f"{', '.join(given)}: not with --status or --open, which close nothing")
        if options["status"] and options["reason"].strip():
            raise CommandError("--reason: not with --status, which changes nothing")
        with acting_as(at_the_shell()):
            if options["open"]:
                self._open(options["open"], options["reason"].strip(), options["repeat"])
            elif not options["status"]:
                self._restored(options)
        self._tell()

    def _restored(self, options: dict[str, Any]) -> None:
        if not options["while_running"] and (running := _running()):
            raise CommandError(
                f"processes of Berth are connected to this database ({running}). After a restore every process"
                " stands still; stop them first. If they are known to have reconnected to a promoted replica, add"
                " --while-running. Nothing was done"
            )
        with patient(), transaction.atomic():
            closed = restoring.restored(
                note=options["reason"].strip() or "restored: commits may have been lost",
                went_back_to=options["went_back_to"],
                quiet_since=options["quiet_since"],
                nothing_lost=options["nothing_lost"],
            )
            AuditFigure.objects.all().delete()  # a checkpoint of rows that may be lost is worth nothing
        self.stdout.write(
            f"{counted(closed.doubted, 'attempt is', 'attempts are')} doubted and will be found out,"
            f" {counted(closed.accepted, 'accepted one is', 'accepted ones are')} asked for now,"
            f" {counted(closed.suspected, 'waiting or running job')} may have been sent by what was lost"
        )
        if closed.redrives:
            self.stdout.write(
                f"{counted(closed.redrives, 'redrive')} that ran ended: what was lost may have run their next dead letters"
                " again already. Begin another for what is to run again (`manage.py redrive --list`)"
            )
        if not options["nothing_lost"]:
            self.stdout.write(APPLY_NOW if options["while_running"] else APPLY_FIRST)
        elif quarantined():
            self.stdout.write("what an earlier restore closed stays closed; --open POOL opens it:")

    def _open(self, name: str, reason: str, repeat: bool) -> None:
        pool = Pool.objects.filter(name=name).first()
        if pool is None:
            raise CommandError(f"--open: there is no pool {name!r}")
        if pool.quarantined_at is None:
            raise CommandError(f"--open: pool {name!r} is open")
        opened = reopening.open_by_operator(pool, reason, repeat=repeat)
        if opened is None:
            raise CommandError(f"pool {name!r} could not be opened: run the command again")
        self.stdout.write(f"pool {name} is opened early by {current_actor()}: {opened}")

    def _tell(self) -> None:
        rows = quarantined()
        for row in rows:
            waits = (
                f"; of {counted(row['undecided'], 'job')} it is not known yet whether they ran"
                if row["undecided"]
                else ""
            )
            until = "its time is over" if row["is_over"] else f"until {row['quarantined_until']:%Y-%m-%d %H:%M:%S} UTC"
            self.stdout.write(f"pool {row['name']}: closed {until}{waits}. {row['quarantine_note']}")
        if not rows:
            self.stdout.write("every pool is open")


def _running() -> str:
    """Processes of Berth that stay connected, as `2 web, 1 worker:assign`; empty when there is none."""
    return ", ".join(f"{row['processes']} {row['role']}" for row in server.processes() if is_role(row["role"]))
