"""What a job is suspected of after a restore: that commits which were lost had sent it to its upstream."""

from django.db import models
from django.db.models.functions import Now


class Suspicion(models.Model):
    """One row per job that had not ended when the database went back; its pool stays closed until it is decided.

    The upstream is asked for the dispatch keys that the job might have had; `decided` says what came of it.
    """

    class Decided(models.TextChoices):
        NEVER_SENT = "never_sent", "the upstream knows none of its keys"
        FOUND = "found", "the upstream knows one of them: its attempt was opened again"
        SAME_KEY = "same_key", "sent again under the key it had, which its only account deduplicates"
        MAY_REPEAT = "may_repeat", "its type allows repeats"
        NOBODY_KNOWS = "nobody_knows", "nobody can tell: it failed with outcome_unknown"
        ENDED = "ended", "it ended meanwhile"
        UNDER_WAY = "under_way", "its attempt was still being found out when the pool opened"
        OPERATOR = "operator", "an operator knows that it did not run, or wants it repeated"

    class Called(models.TextChoices):
        OTHERWISE = "otherwise", "it may have been sent as was declared before: only that it is known decides"
        DENIED = "denied", "and where it would be sent now nobody knows it"

    # No foreign keys in the database: each would be one more trigger to ask for every move of a job.
    job = models.OneToOneField("jobs.Job", models.PROTECT, primary_key=True, related_name="+", db_constraint=False)
    pool = models.ForeignKey("pool.Pool", models.PROTECT, related_name="+", db_constraint=False, db_index=False)
    since = models.DateTimeField(db_default=Now(), help_text="When the database went back.")
    look_at = models.DateTimeField(db_default=Now(), help_text="When its upstream is asked.")
    asks_failed = models.PositiveIntegerField(default=0, help_text="Askings in a row that told nothing.")
    attempt = models.ForeignKey(
        "jobs.Attempt", models.PROTECT, null=True, related_name="+", db_constraint=False, db_index=False
    )
    called = models.CharField(
        max_length=10,
        blank=True,
        db_default="",
        choices=Called,
        help_text="Whether calls were declared otherwise before anybody had asked.",
    )
    decided = models.CharField(max_length=20, blank=True, choices=Decided)
    decided_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["pool", "look_at"], condition=models.Q(decided_at__isnull=True), name="suspicion_undecided"
            )
        ]

    def __str__(self) -> str:
        return f"job {self.job_id}: {self.decided or 'undecided'}"
