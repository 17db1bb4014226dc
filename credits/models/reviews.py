"""Which open holds are old enough to be looked at, and when next: small tables beside the holds, never written on the way
of a submit or a closing."""

from django.db import models
from django.db.models import Q

from credits.models.holds import Hold


class HoldReview(models.Model):
    """A hold that was still open when the walk came by; it leaves with the first review that finds it closed."""

    # No foreign key in the database: it would be one more trigger to ask for every closing. Holds are never deleted.
    hold = models.OneToOneField(Hold, models.PROTECT, primary_key=True, db_constraint=False, related_name="review")
    due_at = models.DateTimeField(help_text="When it is looked at next")
    needs_attention_since = models.DateTimeField(null=True, blank=True)
    attention = models.TextField(blank=True, db_default="", help_text="Why an operator should look")

    class Meta:
        indexes = [
            models.Index(fields=["due_at", "hold"], name="holdreview_due"),
            models.Index(
                fields=["hold"], condition=Q(needs_attention_since__isnull=False), name="holdreview_attention"
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=(Q(needs_attention_since__isnull=True) & Q(attention=""))
                | (Q(needs_attention_since__isnull=False) & ~Q(attention="")),
                name="holdreview_attention_has_a_reason",
            )
        ]

    def __str__(self) -> str:
        return f"review of hold {self.hold_id}"


class HoldWalk(models.Model):
    """How far the walk through the holds has come: one row, which is also its lock."""

    id = models.SmallIntegerField(primary_key=True)
    passed = models.BigIntegerField(db_default=0, help_text="Holds up to this id were looked at once")

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="holdwalk_is_one_row")]

    def __str__(self) -> str:
        return f"up to hold {self.passed}"
