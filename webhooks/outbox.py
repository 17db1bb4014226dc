"""Writing events into the outbox, in the transaction of the change they tell of."""

from collections.abc import Iterable

from webhooks.models import Event


def write(events: Iterable[Event]) -> None:
    """Stores `events`; they become visible, or vanish, with the caller's transaction. Locks nothing."""
    Event.objects.bulk_create(events)


def write_once(events: Iterable[Event]) -> None:
    """The same, passing over those whose `key` was told before. A second teller waits for the first, then tells nothing."""
    Event.objects.bulk_create(events, ignore_conflicts=True)
