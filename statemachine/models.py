"""The shape of a history table: one row per move, written by a trigger and by nothing else."""

from django.db import models
from django.db.models.functions import Now


class Move(models.Model):
    """Abstract. A concrete history adds `subject_id`, the plain id of the row that moved."""

    from_state = models.CharField(max_length=20, blank=True)
    to_state = models.CharField(max_length=20)
    cause = models.TextField(blank=True)
    actor = models.TextField(blank=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.from_state or '∅'} → {self.to_state} ({self.cause})"
