"""Who owns credits, and the kept sum of what a wallet has. The balance's row is the lock of all that is under it."""

import pgtrigger
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from statemachine.triggers import no_truncate

TENANT_LEDGER = "tenant"


def resource_ledger(pool_id: int) -> str:
    """The ledger of the upstream accounts of a pool: what its provider counts in is no one else's unit."""
    return f"resource:{pool_id}"


class Account(models.Model):
    """A name in a ledger. Never updated, so foreign keys to it never meet a busy row."""

    class Kind(models.TextChoices):
        WALLET = "wallet", "wallet of a tenant"
        RECEIVABLE = "receivable", "what a tenant owes beyond its holds"
        ISSUER = "issuer", "where granted credits come from"
        REVENUE = "revenue", "what was charged"
        LOSS = "loss", "what we absorbed"
        BREAKAGE = "breakage", "what expired unused"
        UPSTREAM = "upstream", "what an upstream account has at its provider"
        SPENT = "upstream_spend", "what attempts used of it"
        TOPPED_UP = "upstream_topup", "what was bought of it"
        DRIFT = "drift", "where the provider says otherwise"

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
    """The sum of a wallet or of an upstream account, kept. The row is the lock of everything under its account.

    System accounts have none: they are summed from the transfers, so they are never a lock. No foreign key points here
    (it would lock the row for every child) and no changing column is indexed, so every update stays in its page. What
    follows `version` is for wallets: what budgets count, and whether the tenant was told that little is left.
    """

    account = models.OneToOneField(Account, models.PROTECT, primary_key=True)
    posted = models.BigIntegerField(db_default=0, help_text="Granted less charged, in micro-credits")
    held = models.BigIntegerField(db_default=0, help_text="Sum of the open holds")
    credit_limit = models.BigIntegerField(db_default=0, help_text="How far below zero admission may go")
    hard_floor = models.BigIntegerField(db_default=0, help_text="What posted less held can never pass")
    version = models.BigIntegerField(db_default=0)
    owed = models.BigIntegerField(db_default=0, help_text="Usage above holds that the tenant has yet to pay")
    charged_on = models.DateField(null=True, blank=True, help_text="The day (UTC) of the last charge")
    day_charged = models.BigIntegerField(db_default=0, help_text="Charged on that day")
    month_charged = models.BigIntegerField(db_default=0, help_text="Charged in the month of that day")
    low_since = models.DateTimeField(null=True, blank=True, help_text="When the tenant was told that little is left")
    paced_until = models.DateTimeField(null=True, blank=True, help_text="No submit before, while little is left")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(owed__gte=0), name="balance_owed_not_negative"),
            models.CheckConstraint(condition=Q(held__gte=0), name="balance_held_not_negative"),
            models.CheckConstraint(condition=Q(credit_limit__gte=0), name="balance_credit_limit_not_negative"),
            models.CheckConstraint(condition=Q(hard_floor__lte=0), name="balance_hard_floor_not_positive"),
            models.CheckConstraint(
                condition=Q(posted__gte=F("held") + F("hard_floor")), name="balance_above_hard_floor"
            ),
        ]

    def __str__(self) -> str:
        return f"balance of account {self.account_id}"


class Ceiling(models.Model):
    """What all tenants together may be charged and have held in a day and a month of UTC. At most one row."""

    id = models.SmallIntegerField(primary_key=True, db_default=1)
    day_budget = models.BigIntegerField(null=True, blank=True, help_text="Micro-credits. Empty: no budget")
    month_budget = models.BigIntegerField(null=True, blank=True, help_text="Micro-credits. Empty: no budget")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="ceiling_is_one"),
            models.CheckConstraint(
                condition=(Q(day_budget__isnull=True) | Q(day_budget__gte=0))
                & (Q(month_budget__isnull=True) | Q(month_budget__gte=0)),
                name="ceiling_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return "budgets of all tenants"


class Reading(models.Model):
    """What a provider said that an upstream account has, and what was made of it. Appended, never changed."""

    account = models.ForeignKey(Account, models.PROTECT, db_index=False)
    key = models.TextField(help_text="Of this reading, once per account")
    said = models.BigIntegerField(help_text="Micro-credits that the provider said are left")
    posted = models.BigIntegerField(help_text="What the ledger had then")
    held = models.BigIntegerField(help_text="What attempts in flight had of it")
    drift = models.BigIntegerField(help_text="What attempts in flight do not explain")
    booked = models.BooleanField(help_text="Off: too far off to be believed without an operator")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["account", "key"], name="reading_once_per_account")]
        # The newest of an account, asked for each minute.
        indexes = [models.Index(fields=["account", "-id"], name="reading_newest")]
        triggers = [
            pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return self.key
