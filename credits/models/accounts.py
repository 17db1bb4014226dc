"""Who owns credits, and the kept sum of what a wallet has. The balance's row is the lock of all that is under it."""

import pgtrigger
from django.db import models
from django.db.models import F, Q

TENANT_LEDGER = "tenant"


class Account(models.Model):
    """A name in a ledger. Never updated, so foreign keys to it never meet a busy row."""

    class Kind(models.TextChoices):
        WALLET = "wallet", "wallet of a tenant"
        RECEIVABLE = "receivable", "what a tenant owes beyond its holds"
        ISSUER = "issuer", "where granted credits come from"
        REVENUE = "revenue", "what was charged"
        LOSS = "loss", "what we absorbed"
        BREAKAGE = "breakage", "what expired unused"

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
