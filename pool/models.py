"""Upstream capacity: pools, the accounts in them, and the sessions of each account."""

from django.db import models
from django.db.models.functions import Now

from pool.secrets import open_credential, seal_credential
from pool.signals import resource_moved
from pool.states import RESOURCE
from statemachine.models import Move
from statemachine.triggers import guard_triggers, history_triggers


class Pool(models.Model):
    """Interchangeable capacity with one order. `virtual_time` is the turn last assigned (start-time fair queueing)."""

    class Order(models.TextChoices):
        FAIR = "fair", "fair: between tenants by share and weight"
        FIFO = "fifo", "fifo: by arrival"

    name = models.CharField(max_length=100, unique=True)
    order = models.CharField(max_length=10, choices=Order, default=Order.FAIR)
    window = models.PositiveIntegerField(default=10, help_text="Jobs of one tenant that may stand in line at once.")
    cooldown_ms = models.PositiveIntegerField(default=0, help_text="Pause after each job on a session, milliseconds.")
    upstream = models.JSONField(default=dict, help_text="adapter, base_url, headers: as in the configuration file.")
    accepting = models.BooleanField(default=True, help_text="Off: nothing new is assigned.")
    tracks_credits = models.BooleanField(
        db_default=False, help_text="Accounts of it have a balance: none is chosen for a job that it cannot pay for."
    )
    breaker = models.JSONField(
        default=dict, db_default={}, blank=True, help_text="failures, quarantine_ms, max_ms; see pool/health.py."
    )
    virtual_time = models.FloatField(default=0.0)
    quarantined_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Since a restore: no session is given to a job."
    )
    quarantined_until = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Until then what the lost commits began may run."
    )
    quarantine_note = models.TextField(blank=True, db_default="", editable=False)
    declared = models.JSONField(default=dict, blank=True, help_text="As written in the configuration file.")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(window__gte=1), name="pool_window_positive"),
            models.CheckConstraint(
                condition=models.Q(quarantined_at__isnull=True, quarantined_until__isnull=True)
                | models.Q(quarantined_at__isnull=False, quarantined_until__isnull=False),
                name="pool_quarantine_has_an_end",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class UpstreamAccount(models.Model):
    """Credentials at the provider, and how many sessions they allow."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="accounts")
    name = models.CharField(max_length=100)
    sessions = models.PositiveIntegerField(default=1)
    sealed_credential = models.TextField(blank=True, editable=False)
    base_url = models.CharField(max_length=2000, blank=True, help_text="Overrides the pool's.")
    labels = models.JSONField(default=dict, blank=True)
    vars = models.JSONField(default=dict, blank=True)
    tracked_since = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Since when it pays by attempt of what it has at its provider. Empty: not tracked.",
    )
    ask_after = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Its budget of polls: spent up to this time."
    )
    declared = models.JSONField(default=dict, blank=True, help_text="As in the configuration file, without secrets.")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name, verbose_name_plural = "account", "accounts"
        constraints = [models.UniqueConstraint(fields=["pool", "name"], name="account_name_once_per_pool")]

    def __str__(self) -> str:
        return f"{self.pool.name}/{self.name}"

    @property
    def credential(self) -> str:
        """The secret in the clear; raises `SecretUnreadable` when no key of FIELD_KEYS opens it."""
        return open_credential(self.sealed_credential, self.pool_id, self.name)

    @credential.setter
    def credential(self, value: str) -> None:
        self.sealed_credential = seal_credential(value, self.pool_id, self.name)


class Resource(models.Model):
    """One session of an account: the row that is locked.

    No index on state or on a timestamp: every move stays a HOT update and the table stays small. `fence` grows with
    each holder; whoever names an old one changes nothing.
    """

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="resources")
    account = models.ForeignKey(UpstreamAccount, on_delete=models.PROTECT, related_name="resources", db_index=False)
    number = models.PositiveIntegerField(help_text="Which session of its account, from 1.")
    state = models.CharField(max_length=20, default=RESOURCE.first)
    accepting = models.BooleanField(default=True, help_text="Off: draining; what runs ends, nothing begins.")
    disabled = models.BooleanField(db_default=False, help_text="To be offline as soon as what runs has ended.")
    rest_until = models.DateTimeField(null=True, blank=True, help_text="Quarantine: nothing begins before.")
    asked_until = models.DateTimeField(
        null=True, blank=True, help_text="Reuse gap or Retry-After: nothing begins before."
    )
    broken_until = models.DateTimeField(null=True, blank=True, help_text="Breaker: nothing begins before.")
    refused = models.BooleanField(
        db_default=False, help_text="Disabled since the upstream refused the account, not by an operator."
    )
    quarantined = models.BooleanField(
        db_default=False, editable=False, help_text="Its pool is closed since a restore: it is given to nobody."
    )
    note = models.TextField(
        blank=True, db_default="", help_text="Why it is drained, disabled or quarantined, and by whom."
    )
    fence = models.BigIntegerField(default=0)
    job_id = models.UUIDField(null=True, blank=True, help_text="The job it was last given to.")
    available_at = models.DateTimeField(null=True, blank=True, help_text="When a cooldown ends.")
    reason = models.TextField(blank=True)
    used_at = models.DateTimeField(null=True, blank=True, help_text="When it was last given to a job.")
    version = models.BigIntegerField(default=0)

    class Meta:
        verbose_name, verbose_name_plural = "session", "sessions"
        constraints = [
            models.UniqueConstraint(fields=["account", "number"], name="resource_number_once_per_account"),
            models.CheckConstraint(
                condition=~models.Q(state="cooldown") | models.Q(available_at__isnull=False),
                name="resource_cooldown_has_an_end",
            ),
        ]
        triggers = guard_triggers(RESOURCE, "pool_resourcemove")

    def __str__(self) -> str:
        return f"{self.account}#{self.number}"


class Restoration(models.Model):
    """That this database went back to an earlier state, and lost the commits since. `went_back_to` is empty when unknown."""

    at = models.DateTimeField(db_default=Now())
    went_back_to = models.DateTimeField(null=True)
    quiet_since = models.DateTimeField(
        null=True, help_text="Nothing of before was sent after that; empty: nobody said."
    )
    note = models.TextField(blank=True)
    actor = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"restored at {self.at}"


class PoolHealth(models.Model):
    """What is remembered of a pool whose calls failed: its row is the lock of all that `pool.health` decides in the pool.

    Made when it is first locked. `level` is how many rests in a row began; `opened_at` and `open_until` are
    set while the breaker is open or half-open. All of them are the database's times.
    """

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, primary_key=True, related_name="health")
    failing_since = models.DateTimeField(null=True, help_text="The first failure without a success after it.")
    failed_at = models.DateTimeField(null=True, help_text="The last failure that may have a common cause.")
    succeeded_at = models.DateTimeField(null=True, help_text="The last success that was told after failures.")
    level = models.PositiveIntegerField(default=0)
    opened_at = models.DateTimeField(null=True)
    open_until = models.DateTimeField(null=True)
    probe_id = models.BigIntegerField(null=True, help_text="The session that comes back first.")
    why = models.TextField(blank=True, default="")

    def __str__(self) -> str:
        return f"health of {self.pool}"


class AccountHealth(models.Model):
    """The same of an account. `failures` in a row; `asked_until`: the last Retry-After; who was refused, until a success."""

    account = models.OneToOneField(UpstreamAccount, on_delete=models.CASCADE, primary_key=True, related_name="health")
    failures = models.PositiveIntegerField(default=0)
    failed_at = models.DateTimeField(null=True)
    asked_until = models.DateTimeField(null=True)
    level = models.PositiveIntegerField(default=0)
    opened_at = models.DateTimeField(null=True)
    open_until = models.DateTimeField(null=True)
    probe_id = models.BigIntegerField(null=True)
    why = models.TextField(blank=True, default="")
    refused_job = models.UUIDField(null=True)
    refused_tenant = models.BigIntegerField(null=True)
    refusals = models.PositiveIntegerField(db_default=0, help_text="Different jobs in a row that it refused.")

    def __str__(self) -> str:
        return f"health of {self.account}"


class ResourceMove(Move):
    """The history of the sessions."""

    subject_id = models.BigIntegerField(db_index=True)

    class Meta:
        verbose_name, verbose_name_plural = "move of a session", "moves of sessions"
        triggers = history_triggers()


# What is wanted of a session is read where it is let go.
CARRIED = ["pool_id", "job_id", "fence", "available_at", "disabled", "rest_until", "asked_until", "broken_until"]
RESOURCE.bind(Resource, resource_moved, carry=CARRIED)
