"""Runs the checks one after the other. One that fails, or takes too long, is an error with its reason; the others go on."""

import queue
import threading
import time
from collections.abc import Iterator, Sequence

from django.conf import settings
from django.db import connection

from broker_project.doctor.findings import ERROR, SKIPPED, Check, Finding, Result, error
from broker_project.masking import Masker, secrets_of

LONGEST_SECONDS = 4.0  # of one check: a database that does not answer is told within six, the start of Django included


def examine(checks: Sequence[Check]) -> Iterator[Result]:
    """The results in the order of the checks, each as soon as it is there. No secret stands in them."""
    masker = Masker(secrets_of(settings))
    broken: set[str] = set()
    for check in checks:
        began = time.monotonic()
        missing = [need for need in check.needs if need in broken]
        finding = Finding(SKIPPED, f"not looked at without {missing[0]}") if missing else _in_time(check)
        if missing or finding.level == ERROR:
            broken.add(check.name)
        masked = Finding(finding.level, masker.text(finding.found), masker.text(finding.advice))
        yield Result(check.name, masked, round((time.monotonic() - began) * 1000, 1))


def _in_time(check: Check) -> Finding:
    """On a thread that nobody waits for in the end: what hangs in a system call cannot be interrupted."""
    answer: queue.SimpleQueue[Finding] = queue.SimpleQueue()
    threading.Thread(target=lambda: answer.put(_look(check)), name=f"doctor-{check.name}", daemon=True).start()
    try:
        return answer.get(timeout=LONGEST_SECONDS)
    except queue.Empty:
        return error(
            f"no answer within {LONGEST_SECONDS:g} s", "something between here and there swallows what is sent"
        )


def _look(check: Check) -> Finding:
    try:
        return check.look()
    except Exception as failure:  # noqa: BLE001  whatever it met is what there is to say
        words = next(iter(str(failure).splitlines()), "")
        return error(f"could not be looked at: {type(failure).__name__}: {words}", "the reason says what is missing")
    finally:
        connection.close()
