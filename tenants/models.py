"""Customers and their API keys."""

from django.db import models
from django.db.models.functions import Now


class Tenant(models.Model):
    """A customer: a share of the pools, limits, and a wallet (kept by the ledger under this id)."""

    class Billing(models.TextChoices):
        CREDITS = "credits", "credits: every job is held and charged"
        NONE = "none", "none: jobs are free of charge"

    name = models.CharField(max_length=100, unique=True)
    share = models.FloatField(default=1.0, help_text="Weight between tenants in a fair pool.")
    billing = models.CharField(max_length=10, choices=Billing, default=Billing.CREDITS)
    max_running = models.PositiveIntegerField(null=True, blank=True, help_text="Exact, per pool. Empty: no cap.")
    max_priority = models.SmallIntegerField(default=100)
    job_types = models.JSONField(null=True, blank=True, help_text="Names of job types it may use. Empty: all.")
    prices = models.JSONField(default=dict, blank=True, help_text="Job type → CEL over `price`.")
    pools = models.JSONField(default=dict, blank=True, help_text="Pool → {max_running, window} where they differ.")
    day_budget = models.BigIntegerField(
        null=True, blank=True, help_text="Micro-credits charged and held in a day of UTC. Empty: no budget."
    )
    month_budget = models.BigIntegerField(null=True, blank=True, help_text="The same for a month.")
    low_below = models.BigIntegerField(
        null=True,
        blank=True,
        help_text="Micro-credits: with less available, credits.low is told and submits are paced.",
    )
    low_pause_ms = models.PositiveIntegerField(db_default=1000, help_text="Between two submits while credits are low.")
    max_file_bytes = models.BigIntegerField(
        null=True, blank=True, help_text="Of its inputs together. Empty: TENANT_FILE_BYTES of the settings."
    )
    require_idempotency_key = models.BooleanField(default=False)
    accepting = models.BooleanField(default=True, help_text="Off: left the configuration file; new jobs are refused.")
    declared = models.JSONField(default=dict, blank=True, help_text="As written in the configuration file.")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(share__gt=0), name="tenant_share_positive"),
            *(
                models.CheckConstraint(
                    condition=models.Q(**{f"{name}__isnull": True}) | models.Q(**{f"{name}__gte": 0}),
                    name=f"tenant_{name}_not_negative",
                )
                for name in ("day_budget", "month_budget", "low_below", "max_file_bytes")
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def limit(self, pool: str, name: str) -> int | None:
        """The tenant's `max_running` or `window` in `pool`: the pool's own value, else the general one, else None."""
        value = self.pools.get(pool, {}).get(name, getattr(self, name, None))
        return None if value is None else int(value)


class ApiKey(models.Model):
    """A key of a tenant. Only a keyed hash of its secret is kept; `public_id` is what logs may show."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="api_keys")
    public_id = models.CharField(max_length=12, unique=True)
    secret_hash = models.BinaryField(max_length=32)
    pepper = models.CharField(max_length=20, help_text="Which of KEY_PEPPERS sealed the secret.")
    name = models.CharField(max_length=100, blank=True)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name, verbose_name_plural = "API key", "API keys"

    def __str__(self) -> str:
        return f"{self.tenant.name}/{self.public_id}"
