"""`manage.py replay_answers FILE`: what the stored mappings make of recorded answers; exit 1 when one is not as expected."""

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from broker_project.trial.recorded import Recording, RecordingRefused, read_recordings
from broker_project.trial.wording import in_words
from jobs.models import JobType
from upstream.calls import Call, Outcome
from upstream.declared import merged
from upstream.quantities import counted
from upstream.replaying import replayed
from upstream.spec import SpecError

COLUMNS = ("#", "type", "action", "came", "", "concluded")


class Command(BaseCommand):
    help = "Runs recorded answers through the mappings of their job types, as stored. Calls nobody, stores nothing."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="YAML, or JSON by lines (.jsonl): docs/operations.md")

    def handle(self, **options: Any) -> None:
        try:
            recordings = read_recordings(Path(options["file"]), set(JobType.objects.values_list("name", flat=True)))
        except RecordingRefused as error:
            raise CommandError(str(error)) from None
        declared = _declared(recordings)
        lines, wrong = [COLUMNS], 0
        for recording in recordings:
            mark, said = _concluded(recording, declared)
            wrong += mark not in ("ok", "")
            lines.append((str(recording.number), recording.type, recording.action, recording.came, mark, said))
        self._show(lines)
        if wrong:
            raise CommandError(
                f"{wrong} of {counted(len(recordings), 'answer')} {'is' if wrong == 1 else 'are'} not read as expected"
            )

    def _show(self, lines: Sequence[tuple[str, ...]]) -> None:
        widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS) - 1)]
        for line in lines:
            cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
            self.stdout.write("  ".join([*cells, line[-1]]))


def _declared(recordings: Sequence[Recording]) -> dict[str, dict[str, Any]]:
    """The merged blocks by job type. Raises CommandError for a type that is not spoken to over HTTP."""
    names = {recording.type for recording in recordings}
    found = {
        job_type.name: merged(job_type.pool.upstream, job_type.upstream)
        for job_type in JobType.objects.filter(name__in=names).select_related("pool")
    }
    for name, upstream in found.items():
        if (upstream.get("adapter") or "http") != "http":
            raise CommandError(f"job type {name!r} has an adapter of its own, whose answers are not read by a mapping")
    return found


def _concluded(recording: Recording, declared: Mapping[str, dict[str, Any]]) -> tuple[str, str]:
    """How it compares with what is expected, and what is concluded."""
    try:
        outcome = replayed(recording.action, _call(recording, declared), recording.received, recording.repeat)
    except SpecError as error:
        return "ERROR", str(error)
    return _compared(recording, outcome)


def _compared(recording: Recording, outcome: Outcome) -> tuple[str, str]:
    if differences := recording.differences(outcome):
        return "DIFFERS", f"{in_words(outcome)} | {'; '.join(differences)}"
    return "ok" if recording.expect else "", in_words(outcome)


def _call(recording: Recording, declared: Mapping[str, dict[str, Any]]) -> Call:
    return Call(
        key=recording.key,
        payload=recording.payload,
        job={"id": "recorded", "type": recording.type, "attempt": 1, "metadata": {}},
        tenant={"name": "replay_answers"},
        account={"name": "recorded", "credential": "", "labels": {}, "vars": {}},
        base_url="",
        upstream=declared[recording.type],
        reference=recording.reference,
    )
