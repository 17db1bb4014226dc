"""Redrives: dead letters of one filter that run again one after the other, at a rate, until an operator stops it."""

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now


class Redrive(models.Model):
    """What is to run again, how fast and why, and how far it is: a place in the order of the letters' ends.

    It concerns what had failed when it began: what fails again is not of it.
    """

    LEAST_RATE: ClassVar[float] = 0.001  # a second: one in 17 minutes
    MOST_RATE: ClassVar[float] = 100.0  # a second; more would keep the sweep from its other work
    MOST_JOBS: ClassVar[int] = 1_000_000_000

    class State(models.TextChoices):
        RUNNING = "running"
        STOPPED = "stopped"
        DONE = "done"

    filter = models.JSONField(default=dict, help_text="code, type, pool, tenant, since, until: what is said of them.")
    rate = models.FloatField(help_text="Replays per second, at most.")
    most = models.PositiveIntegerField(null=True, help_text="Replays in all, at most.")
    why = models.TextField()
    token = models.CharField(max_length=32, unique=True, help_text="One page that is sent twice begins one.")
    actor = models.TextField(help_text="Who began it.")
    state = models.CharField(max_length=10, choices=State.choices, default=State.RUNNING)
    replayed = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0, help_text="Stayed dead letters.")
    reasons = models.JSONField(default=dict, help_text="Why they were refused → how many.")
    seen_at = models.DateTimeField(null=True, help_text="The letter looked at last: when it had failed.")
    seen_id = models.UUIDField(null=True, help_text="Its id.")
    paced_until = models.DateTimeField(db_default=Now(), help_text="Up to here its rate is used.")
    began_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    ended_by = models.TextField(blank=True, default="", help_text="Who stopped it.")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(rate__gte=0.001) & Q(rate__lte=100.0), name="redrive_rate_in_bounds"),
            models.CheckConstraint(
                condition=Q(most__isnull=True) | Q(most__gte=1, most__lte=1_000_000_000), name="redrive_most_in_bounds"
            ),
            models.CheckConstraint(
                condition=Q(most__isnull=True) | Q(replayed__lte=F("most")), name="redrive_within_its_most"
            ),
            models.CheckConstraint(
                condition=(Q(state="running") & Q(ended_at__isnull=True))
                | (~Q(state="running") & Q(ended_at__isnull=False)),
                name="redrive_ended_iff_not_running",
            ),
        ]
        indexes = [models.Index(fields=["id"], condition=Q(state="running"), name="redrive_running")]
        triggers = [
            pgtrigger.FSM(
                name="redrives_only_end", field="state", transitions=[("running", "stopped"), ("running", "done")]
            )
        ]

    def __str__(self) -> str:
        return f"redrive {self.pk}"
