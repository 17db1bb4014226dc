"""The Celery application: queues by role, JSON only, acknowledged late, no results kept (state is in Postgres)."""

import os
from typing import Any

from celery import Celery, signals
from kombu import Exchange, Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "broker_project.settings")

from django.conf import settings

EVENTS_SECONDS = 0.25
_sweepers: list[Any] = []  # the sweeper of this process, to be stopped before its calls are drained

app = Celery("berth")
app.conf.update(
    broker_url=settings.BROKER_URL,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={"socket_keepalive": True, "health_check_interval": 10},
    task_serializer="json",
    accept_content=["json"],
    task_ignore_result=True,
    task_acks_late=True,
    task_publish_retry=False,
    # By the nameless exchange a message goes to the queue of its routing key: there is no binding that an emptied Redis
    # could lose.
    task_queues=[Queue(name, Exchange(""), routing_key=name) for name in ("assign", "transitions", "upstream")],
    task_default_queue="transitions",
    task_default_exchange="",
    task_default_routing_key="transitions",
    task_routes={
        "jobs.assign": {"queue": "assign"},
        "jobs.release": {"queue": "assign"},
        "jobs.promote": {"queue": "assign"},
        "jobs.dispatch": {"queue": "upstream"},
        "jobs.verify": {"queue": "upstream"},
    },
    worker_prefetch_multiplier=4,
    worker_send_task_events=True,
    worker_hijack_root_logger=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    timezone="UTC",
    beat_schedule={"sweep": {"task": "jobs.sweep", "schedule": 5.0, "options": {"expires": 5}}},
)
app.autodiscover_tasks(["jobs"])


@signals.setup_logging.connect
def _leave_logging_to_django(**_kwargs: Any) -> None:
    """Django's LOGGING already stands; connecting here keeps Celery from replacing it."""


@signals.worker_ready.connect
def _worker_is_ready(sender: Any, **_kwargs: Any) -> None:
    """Every living worker sweeps; one that makes upstream calls also sends what no message told it to send."""
    from jobs.sweep import Sweeper
    from statemachine.actors import name_process

    name_process(f"worker:{sender.hostname}")
    _batch_events(sender)
    _sweepers.append(Sweeper(with_calls="upstream" in {queue.name for queue in sender.task_consumer.queues}))
    _sweepers[-1].start()


def _batch_events(consumer: Any) -> None:
    """Flower's task events leave four times a second instead of with each task: they cost a tenth of a busy worker."""

    def flush() -> None:
        if consumer.event_dispatcher:
            consumer.event_dispatcher.flush()

    consumer.on_send_event_buffered = lambda: None  # taken over by every dispatcher made after a reconnect
    if consumer.event_dispatcher:
        consumer.event_dispatcher.on_send_buffered = None
    if consumer.hub:
        consumer.hub.call_repeatedly(EVENTS_SECONDS, flush)


@signals.worker_shutdown.connect
def _land(**_kwargs: Any) -> None:
    """Warm shutdown: calls in flight may end; their findings are written before the process goes."""
    from jobs import calls

    for sweeper in _sweepers:
        sweeper.stop()
    calls.drain()


@signals.beat_init.connect
def _beat_sweeps(**_kwargs: Any) -> None:
    from jobs.sweep import Sweeper
    from statemachine.actors import name_process

    name_process("process:beat")
    Sweeper().start()
