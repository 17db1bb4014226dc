"""What a wallet's credits are made of: lots, each granted at once, with a category, a priority and perhaps an expiry."""

import pgtrigger
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from credits.models.accounts import Account
from credits.pricing import short_text
from statemachine.triggers import no_truncate
from tenants.models import Tenant

PRIORITY = 50  # of a lot that names none; lower is used first


class Category(models.TextChoices):
    PROMO = "promo", "a gift"
    PAID = "paid", "paid for"


class Lot(models.Model):
    """Credits that were granted together. Of what remains, a part may be reserved by open holds; the rest is free.

    They are used in the order of priority, expiry (never comes last), promo before paid, id. Read and written under the
    lock of the wallet's balance. `spent` changes once, so the indexes on it leave every other update in its page.
    """

    account = models.ForeignKey(Account, models.PROTECT, db_index=False)
    source_key = models.TextField(help_text="The key of the entry that made it")
    category = models.TextField(choices=Category)
    priority = models.SmallIntegerField(db_default=PRIORITY, help_text="Lower is used first")
    amount = models.BigIntegerField()
    remaining = models.BigIntegerField()
    reserved = models.BigIntegerField(db_default=0, help_text="The part of what remains that open holds have")
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    spent = models.GeneratedField(
        expression=Q(remaining=0),  # type: ignore[arg-type]  # a condition serves, though the stubs do not say so
        output_field=models.BooleanField(),
        db_persist=True,
    )

    class Meta:
        indexes = [
            models.Index(fields=["account"], condition=Q(spent=False), name="lot_of_account"),
            models.Index(
                fields=["expires_at", "account"],
                condition=Q(spent=False, expires_at__isnull=False),
                name="lot_by_expiry",
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["source_key"], name="lot_source_key"),
            models.CheckConstraint(condition=Q(amount__gt=0), name="lot_amount_positive"),
            models.CheckConstraint(condition=Q(category__in=["promo", "paid"]), name="lot_category_known"),
            models.CheckConstraint(
                condition=Q(reserved__gte=0, remaining__gte=F("reserved"), amount__gte=F("remaining")),
                name="lot_reserved_within_remaining_within_amount",
            ),
        ]
        triggers = [
            pgtrigger.Protect(name="no_delete", operation=pgtrigger.Delete),
            pgtrigger.ReadOnly(name="terms_fixed", fields=["account", "source_key", "category", "amount"]),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return self.source_key


class Allowance(models.Model):
    """Credits that a tenant is granted once in each day or month (UTC), for as long as it is enabled."""

    class Every(models.TextChoices):
        DAY = "day", "each day"
        MONTH = "month", "each month"

    tenant = models.ForeignKey(Tenant, models.PROTECT)
    amount = models.BigIntegerField(help_text="Micro-credits of each period")
    every = models.TextField(choices=Every)
    category = models.TextField(choices=Category, db_default=Category.PROMO)
    priority = models.SmallIntegerField(db_default=PRIORITY, help_text="Lower is used first")
    lifetime_seconds = models.BigIntegerField(
        null=True, blank=True, help_text="From the begin of its period; 0: until the next begins; empty: for ever"
    )
    enabled = models.BooleanField(db_default=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount__gt=0, amount__lte=10**15), name="allowance_amount_in_range"),
            models.CheckConstraint(condition=Q(every__in=["day", "month"]), name="allowance_every_known"),
            models.CheckConstraint(condition=Q(category__in=["promo", "paid"]), name="allowance_category_known"),
            models.CheckConstraint(
                condition=Q(lifetime_seconds__isnull=True) | Q(lifetime_seconds__gte=0),
                name="allowance_lifetime_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{short_text(self.amount)} credits each {self.every}"
