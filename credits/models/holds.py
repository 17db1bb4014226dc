"""Credits set aside for a job, and from which lots they come."""

import pgtrigger
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from credits.models.accounts import Account
from credits.models.lots import Lot
from statemachine.triggers import no_truncate


class Hold(models.Model):
    """Credits set aside for one run of a job, resolved once. Attempt 0 is the tenant's."""

    class Status(models.TextChoices):
        OPEN = "open", "set aside"
        CAPTURED = "captured", "charged"
        RELEASED = "released", "given back"

    account = models.ForeignKey(Account, models.PROTECT, db_index=False)
    job_id = models.UUIDField()
    run = models.IntegerField()
    attempt = models.IntegerField(db_default=0)
    amount = models.BigIntegerField()
    status = models.TextField(choices=Status, db_default=Status.OPEN)
    captured = models.BigIntegerField(null=True, blank=True)
    overrun = models.BigIntegerField(db_default=0, help_text="Usage above the hold, paid by loss or receivable")
    reason = models.TextField(blank=True, db_default="")
    review_at = models.DateTimeField(help_text="An open hold past this time is looked at; it never lapses by itself")
    created_at = models.DateTimeField(db_default=Now())
    resolved_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        # The only index is on columns that never change (job first: closings know the job, not the wallet).
        # One on status or review_at would cost every closing three index entries.
        constraints = [
            models.UniqueConstraint(
                fields=["job_id", "run", "account", "attempt"], name="hold_once_per_job_run_attempt"
            ),
            models.CheckConstraint(condition=Q(amount__gte=0), name="hold_amount_not_negative"),
            models.CheckConstraint(condition=Q(status__in=["open", "captured", "released"]), name="hold_status_known"),
            models.CheckConstraint(
                condition=Q(status="open", resolved_at__isnull=True)
                | (~Q(status="open") & Q(resolved_at__isnull=False)),
                name="hold_open_until_resolved",
            ),
            models.CheckConstraint(
                condition=Q(status="captured", captured__isnull=False)
                | (~Q(status="captured") & Q(captured__isnull=True)),
                name="hold_captured_has_amount",
            ),
            models.CheckConstraint(
                condition=Q(captured__isnull=True) | Q(captured__gte=0, captured__lte=F("amount")),
                name="hold_captured_within_amount",
            ),
            models.CheckConstraint(
                condition=Q(overrun=0) | Q(overrun__gt=0, captured=F("amount")), name="hold_overrun_above_full_capture"
            ),
        ]
        triggers = [
            pgtrigger.Protect(name="no_delete", operation=pgtrigger.Delete),
            pgtrigger.Protect(
                name="resolved_once", operation=pgtrigger.Update, condition=pgtrigger.Q(old__status__df="open")
            ),
            pgtrigger.ReadOnly(name="terms_fixed", fields=["account", "job_id", "run", "attempt", "amount"]),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.status} hold for job {self.job_id} run {self.run}"


class HoldLot(models.Model):
    """The part of a hold that stands on one lot. What a hold has beyond its lots is drawn on the credit line."""

    pk = models.CompositePrimaryKey("hold", "lot")
    hold = models.ForeignKey(Hold, models.PROTECT, related_name="lots", db_index=False)
    lot = models.ForeignKey(Lot, models.PROTECT, related_name="holds", db_index=False)
    amount = models.BigIntegerField()
    captured = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount__gt=0), name="holdlot_amount_positive"),
            models.CheckConstraint(
                condition=Q(captured__isnull=True) | Q(captured__gte=0, captured__lte=F("amount")),
                name="holdlot_captured_within_amount",
            ),
        ]
        triggers = [
            pgtrigger.Protect(name="no_delete", operation=pgtrigger.Delete),
            pgtrigger.Protect(
                name="resolved_once",
                operation=pgtrigger.Update,
                condition=pgtrigger.Q(old__captured__isnull=False),
            ),
            pgtrigger.ReadOnly(name="terms_fixed", fields=["hold", "lot", "amount"]),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.amount} of lot {self.lot_id}"
