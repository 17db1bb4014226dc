"""The tables of the ledger. Only `ledger.py` writes them; CHECKs and triggers hold what it promises against all others.

Money is a bigint of micro-credits (1 credit = 1 000 000). A transfer has one debit, one credit and one amount, so it is
balanced by construction. Defaults stand in the database because rows are written by set-based SQL (`queries.py`).
"""

import pgtrigger
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

TENANT_LEDGER = "tenant"


class Account(models.Model):
    """A name in a ledger. Never updated, so foreign keys to it never meet a busy row."""

    class Kind(models.TextChoices):
        WALLET = "wallet", "wallet of a tenant"
        RECEIVABLE = "receivable", "what a tenant owes beyond its holds"
        ISSUER = "issuer", "where granted credits come from"
        REVENUE = "revenue", "what was charged"
        LOSS = "loss", "what we absorbed"

    ledger = models.TextField()
    kind = models.TextField()
    owner_id = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["ledger", "kind", "owner_id"], nulls_distinct=False, name="account_ledger_kind_owner"
            ),
            # Says nothing new; it is the target of the transfers' foreign keys on (account, ledger).
            models.UniqueConstraint(fields=["id", "ledger"], name="account_id_ledger"),
        ]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete)]

    def __str__(self) -> str:
        return f"{self.kind} {self.owner_id}" if self.owner_id is not None else self.kind


class Balance(models.Model):
    """The sum of a wallet, kept. The row is the lock of everything under its account.

    System accounts have none: they are summed from the transfers, so they are never a lock. No foreign key points here
    (it would lock the row for every child) and no changing column is indexed, so every update stays in its page.
    """

    account = models.OneToOneField(Account, models.PROTECT, primary_key=True)
    posted = models.BigIntegerField(db_default=0, help_text="Granted less charged, in micro-credits")
    held = models.BigIntegerField(db_default=0, help_text="Sum of the open holds")
    credit_limit = models.BigIntegerField(db_default=0, help_text="How far below zero admission may go")
    hard_floor = models.BigIntegerField(db_default=0, help_text="What posted less held can never pass")
    version = models.BigIntegerField(db_default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(held__gte=0), name="balance_held_not_negative"),
            models.CheckConstraint(condition=Q(credit_limit__gte=0), name="balance_credit_limit_not_negative"),
            models.CheckConstraint(condition=Q(hard_floor__lte=0), name="balance_hard_floor_not_positive"),
            models.CheckConstraint(
                condition=Q(posted__gte=F("held") + F("hard_floor")), name="balance_above_hard_floor"
            ),
        ]

    def __str__(self) -> str:
        return f"balance of account {self.account_id}"


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
        ]

    def __str__(self) -> str:
        return f"{self.status} hold for job {self.job_id} run {self.run}"


class Transfer(models.Model):
    """One entry of the ledger; append-only. `op_key` makes booking it twice impossible."""

    op_key = models.TextField()
    ledger = models.TextField()
    # Their foreign keys span (account, ledger), which Django cannot declare: migration 0002 makes them.
    debit = models.ForeignKey(Account, models.PROTECT, related_name="debits", db_constraint=False, db_index=False)
    credit = models.ForeignKey(Account, models.PROTECT, related_name="credits", db_constraint=False, db_index=False)
    amount = models.BigIntegerField()
    code = models.TextField()
    hold = models.ForeignKey(Hold, models.PROTECT, null=True, blank=True, db_index=False, related_name="transfers")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        # A wallet's entries are read newest first, page by page.
        indexes = [
            models.Index(fields=["debit", "id"], name="transfer_debit"),
            models.Index(fields=["credit", "id"], name="transfer_credit"),
        ]
        constraints = [
            # Not unique=True, which would add a second index for LIKE.
            models.UniqueConstraint(fields=["op_key"], name="transfer_op_key"),
            models.CheckConstraint(condition=Q(amount__gt=0), name="transfer_amount_positive"),
            models.CheckConstraint(condition=~Q(debit=F("credit")), name="transfer_between_two_accounts"),
        ]
        triggers = [
            pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete),
            pgtrigger.Trigger(
                name="no_truncate",
                level=pgtrigger.Statement,
                when=pgtrigger.Before,
                operation=pgtrigger.Truncate,
                func="RAISE EXCEPTION 'pgtrigger: Cannot truncate table %', TG_TABLE_NAME;",
            ),
        ]

    def __str__(self) -> str:
        return self.op_key
