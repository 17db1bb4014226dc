"""The outbox: what tenants are told, written by the same transaction as the change it tells of."""

from django.db import models
from django.db.models.functions import Now


class Event(models.Model):
    """One thing that happened to a tenant's job or credits. The body is frozen here: what is signed is what is sent."""

    tenant_id = models.BigIntegerField()
    type = models.CharField(max_length=50)
    job_id = models.UUIDField(null=True)
    job_run = models.PositiveIntegerField(default=1)
    job_version = models.BigIntegerField(default=0)
    key = models.TextField(null=True, help_text="What may be told once, whoever tells it; empty: guarded otherwise.")
    body = models.JSONField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            # Exactly one terminal event per job and run: a second one is refused by the database.
            models.UniqueConstraint(
                fields=["job_id", "job_run"],
                condition=models.Q(type__in=["job.completed", "job.failed", "job.cancelled"]),
                name="one_terminal_event_per_run",
            ),
            models.UniqueConstraint(fields=["key"], condition=models.Q(key__isnull=False), name="one_event_per_key"),
        ]
        indexes = [models.Index(fields=["tenant_id", "id"], name="event_by_tenant")]

    def __str__(self) -> str:
        return f"{self.type} {self.job_id or self.key or ''}"
