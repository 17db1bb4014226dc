"""`manage.py redrive`: begins, lists and stops redrives of dead letters."""

from argparse import ArgumentParser
from collections import Counter
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from credits.pricing import short_text
from jobs import redrives
from jobs.dead_letters import Filter, NoSuchFilter
from jobs.models import Redrive
from statemachine.actors import at_the_shell
from upstream.quantities import counted, rate

MOST_LISTED = 50
MOST_ID = 2**63 - 1  # of its column


class Command(BaseCommand):
    help = "Runs dead letters again one after the other, oldest first, at a rate; the sweep does it, this begins it."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        for name in ("code", "type", "pool", "tenant"):
            parser.add_argument(f"--{name}", metavar="TEXT", help="only those of it")
        for name, words in (("since", "only what failed since"), ("until", "only what failed before")):
            parser.add_argument(
                f"--{name}", metavar="TIME", help=f"{words}: 2026-11-30T15:00 (UTC), 2026-11-30 or 2h (ago)"
            )
        parser.add_argument("--all", action="store_true", help="all dead letters, where no filter is given")
        parser.add_argument(
            "--rate", default="5/s", help="so many at most, e.g. 5/s, 0.3/s or 100/minute; 5/s if absent"
        )
        parser.add_argument("--most", type=int, metavar="N", help="no more than so many in all")
        parser.add_argument("--why", default="", metavar="TEXT", help="kept with it; needed to begin one")
        parser.add_argument("--dry-run", action="store_true", help="only say what would run again")
        parser.add_argument("--stop", type=int, metavar="ID", help="stop this one: nothing runs again by it any more")
        parser.add_argument("--list", action="store_true", help=f"the newest {MOST_LISTED}, with their progress")

    def handle(self, **options: Any) -> None:
        if options["list"]:
            return self._list()
        if options["stop"] is not None:
            return self._stop(options["stop"])
        try:
            wanted = Filter.of_words(options)
        except NoSuchFilter as why:
            raise CommandError(f"--{why}") from why
        try:
            a_second = _a_second(options["rate"])
        except ValueError as why:
            raise CommandError(f"--rate: {why}") from why
        if not wanted.as_data() and not options["all"]:
            raise CommandError("say which dead letters: --code, --type, --pool, --tenant, --since, --until, or --all")
        if options["dry_run"]:
            return self._would(wanted, options["most"])
        return self._begin(wanted, a_second, options["most"], options["why"].strip())

    def _begin(self, wanted: Filter, a_second: float, most: int | None, why: str) -> None:
        if not why:
            raise CommandError("--why: say why; it is kept with the redrive")
        rows, whole = wanted.count()
        if whole and not rows:
            raise CommandError(f"no dead letter fits ({wanted}), and nothing was begun; {_codes()}")
        try:
            redrive, _ = redrives.begin(wanted, a_second, most, why=why, actor=at_the_shell())
        except ValueError as error:
            raise CommandError(f"--{error}") from error
        self.stdout.write(f"{redrive} begun: {wanted}, {redrive.rate:g} a second. --list shows its progress.")

    def _would(self, wanted: Filter, most: int | None) -> None:
        rows, whole = wanted.count()
        for row in rows:
            self.stdout.write(
                f"{row['jobs']:>8} {row['type']} of {row['tenant']}: {row['code']}, {short_text(row['price'])}"
            )
        total = sum(row["jobs"] for row in rows), short_text(sum(row["price"] for row in rows))
        bound = f", of which at most {most} run again" if most is not None and most < total[0] else ""
        self.stdout.write(
            f"{'' if whole else 'at least '}{counted(total[0], 'job')} ({wanted}), {total[1]} credits{bound}; nothing was begun"
        )
        if whole and not rows:
            self.stdout.write(_codes())

    def _list(self) -> None:
        for redrive in Redrive.objects.order_by("-id")[:MOST_LISTED]:
            self.stdout.write(
                f"{redrive.pk:>6} {redrive.state}: {redrive.replayed} replayed, {redrive.refused} refused, {redrive.rate:g}/s,"
                f" {Filter.of_data(redrive.filter)} ({redrive.actor}, {redrive.began_at:%Y-%m-%d %H:%M:%S})"
            )
            for why, number in sorted(redrive.reasons.items()):
                self.stdout.write(f"         {number} refused: {why}")

    def _stop(self, redrive_id: int) -> None:
        known = Redrive.objects.filter(pk=redrive_id).first() if 0 < redrive_id <= MOST_ID else None
        if known is None or not redrives.stop(redrive_id, at_the_shell()):
            if known:
                known.refresh_from_db()
            raise CommandError(f"--stop: {f'{known} is {known.state}' if known else 'there is no such redrive'}")
        self.stdout.write(f"redrive {redrive_id} stopped after {Redrive.objects.get(pk=redrive_id).replayed} replays")


def _a_second(text: str) -> float:
    """`5/s`, `100/minute` or `0.3/s` as so many a second. Raises ValueError."""
    number, slash, period = text.partition("/")
    with suppress(ValueError, OverflowError):
        return float(number) * 1000 / rate(f"1{slash}{period}").per_ms
    raise ValueError(f"{text!r} is not a rate; write a number per second, minute, hour or day: 0.3/s, 100/minute")


def _codes() -> str:
    """Which error codes the dead letters have that there are now, the most frequent first."""
    rows, whole = Filter().count()
    codes: Counter[str] = Counter()
    for row in rows:
        codes[row["code"]] += row["jobs"]
    if not codes:
        return "there are no dead letters"
    said = ", ".join(f"{code} ({jobs:,})" for code, jobs in codes.most_common(MOST_LISTED))
    return f"the codes of {'the' if whole else 'the oldest'} dead letters that there are: {said}"
