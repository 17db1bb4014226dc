"""Publishing wake-ups: hints to hurry, never the truth. A failed publish is counted and forgotten; the sweep finds it.

Sending to a dead or deaf broker must not hold up a submit: connections made here give up after a tenth of a second, and
after a failure nothing is tried until the broker is known to answer. Wake-ups due much later are left to the sweep.
"""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from prometheus_client import Counter

from jobs import publisher, redis_hints
from statemachine.crashpoints import crashpoint

LONGEST_COUNTDOWN_SECONDS = 30.0

published = Counter("berth_wakes_published", "Wake-ups sent.", ["task"])
lost = Counter("berth_wakes_lost", "Wake-ups that could not be sent; the sweep does their work.", ["task"])


def wake(task: str, arguments: Sequence[Any], *, due: datetime | None = None, coalesce: bool = False) -> bool:
    """Publishes `jobs.<task>`; False when it was not sent (broker away, already awake, or due too far ahead)."""
    countdown = max(0.0, due.timestamp() - time.time()) if due else 0.0
    if countdown > LONGEST_COUNTDOWN_SECONDS:
        return False
    crashpoint("publish.begun")
    if coalesce and _broker_answers() and not redis_hints.raise_flag(task, arguments):
        return False
    crashpoint("publish.flagged")
    if not _broker_answers():  # or did not answer the flag
        lost.labels(task).inc()
        return False
    try:
        publisher.publish(f"jobs.{task}", list(arguments), countdown)
    except Exception as error:  # noqa: BLE001  whatever the broker's client raises, the commit stands
        publisher.breaker.failed(error)
        lost.labels(task).inc()
        return False
    crashpoint("publish.sent")
    published.labels(task).inc()
    return True


def awake(task: str, arguments: Sequence[Any]) -> None:
    """The consumer clears the flag before it looks, so that what comes after wakes it again."""
    redis_hints.clear_flag(task, arguments)
    crashpoint("publish.cleared")


def _broker_answers() -> bool:
    """As far as is known without asking it."""
    return publisher.breaker.closed and (redis_hints.breaker.closed or not publisher.is_redis())
