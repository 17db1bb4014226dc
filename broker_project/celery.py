"""The Celery application: queues by role, JSON only, acknowledged late, no results kept (state is in Postgres)."""

import logging
import os
from typing import Any

from celery import Celery, bootsteps, signals
from celery.app.amqp import AMQP
from kombu import Exchange, Queue
from structlog.contextvars import bind_contextvars, clear_contextvars

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "broker_project.settings")

from django.conf import settings

from broker_project import logs
from jobs.redis_transport import Connection

EVENTS_SECONDS = 0.25
RECONNECT_SECONDS = 10.0  # the longest pause between two tries; Celery's own grows to half a minute
logger = logging.getLogger("celery.apps.worker")  # at INFO whatever LOG_LEVEL says: the supervisor reads it
_beside: list[Any] = []  # threads of this process, to be stopped before its calls are drained


class _Connection(Connection):
    def ensure_connection(self, *args: Any, **kwargs: Any) -> Any:
        return super().ensure_connection(
            *args, **{"interval_start": 1, "interval_step": 2, "interval_max": RECONNECT_SECONDS, **kwargs}
        )


class _Messages(AMQP):  # type: ignore[misc]
    Connection = _Connection


def _broker(url: str) -> dict[str, Any]:
    """Workers notice within seconds that a broker has gone deaf, and come back to it by themselves."""
    if not url.startswith(("redis://", "rediss://")):
        return {"broker_heartbeat": 10}
    bounds = {"socket_timeout": 5, "socket_connect_timeout": 2, "socket_keepalive": True, "health_check_interval": 10}
    return {"broker_transport_options": bounds}


app = Celery("berth", amqp=_Messages)
app.conf.update(
    broker_url=settings.BROKER_URL,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # A Redis whose disk is full refuses to give messages; that passes, and is no reason to end.
    broker_channel_error_retry=True,
    **_broker(settings.BROKER_URL),
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
        "jobs.cancel_upstream": {"queue": "upstream"},
        "jobs.fetch": {"queue": "upstream"},
        "jobs.ask_balances": {"queue": "upstream"},
        "jobs.clean_files": {"queue": "upstream"},
    },
    worker_prefetch_multiplier=4,
    worker_send_task_events=True,
    worker_hijack_root_logger=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    timezone="UTC",
    beat_schedule={
        "sweep": {"task": "jobs.sweep", "schedule": 5.0, "options": {"expires": 5}},
        "credits": {"task": "jobs.keep_credits", "schedule": 60.0, "options": {"expires": 60}},
        "balances": {"task": "jobs.ask_balances", "schedule": 60.0, "options": {"expires": 60}},
        "files": {"task": "jobs.clean_files", "schedule": 60.0, "options": {"expires": 60}},
    },
)
app.autodiscover_tasks(["jobs"])


@signals.setup_logging.connect
def _leave_logging_to_django(**_kwargs: Any) -> None:
    """Django's LOGGING already stands; connecting here keeps Celery from replacing it."""


@signals.task_prerun.connect
def _bind_task(task: Any, args: Any, **_kwargs: Any) -> None:
    """What is logged while a task runs says which one, and of what. Its thread keeps that until its next task."""
    clear_contextvars()
    bind_contextvars(**logs.fields_of_task(task.name, args))


class Sweeps(bootsteps.StartStopStep):  # type: ignore[misc]
    """Every living worker sweeps; one that makes upstream calls also sends what no message told it to send, and asks.

    It begins before the worker has reached the broker, which may be away, and after its processes were forked.
    """

    requires = {"celery.worker.components:Pool"}

    def start(self, worker: Any) -> None:
        from jobs.asker import Asker
        from jobs.sweep import Sweeper
        from statemachine.actors import name_process

        name_process(f"worker:{worker.hostname}")
        makes_calls = "upstream" in worker.app.amqp.queues.consume_from
        _beside.extend([Sweeper(with_calls=makes_calls), *([Asker()] if makes_calls else [])])
        for thread in _beside:
            thread.start()
        logger.info("%s sweeps.", worker.hostname)


app.steps["worker"].add(Sweeps)


@signals.worker_ready.connect
def _worker_is_ready(sender: Any, **_kwargs: Any) -> None:
    _batch_events(sender)


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


@signals.worker_shutting_down.connect
def _begin_no_more(**_kwargs: Any) -> None:
    """A worker that was asked to stop ends what it has; what its sweep would begin, nobody might take up."""
    from jobs.sweep import Sweeper

    for thread in _beside:
        if isinstance(thread, Sweeper):
            thread.begin_to_stop()


@signals.worker_shutdown.connect
def _land(**_kwargs: Any) -> None:
    """Warm shutdown: calls in flight may end; their findings are written before the process goes."""
    from jobs import calls, fetcher

    for thread in _beside:
        thread.stop()
    calls.drain()
    fetcher.stop()


@signals.beat_init.connect
def _beat_sweeps(**_kwargs: Any) -> None:
    from jobs.sweep import Sweeper
    from statemachine.actors import name_process

    name_process("process:beat")
    Sweeper().start()
