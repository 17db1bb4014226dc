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
    virtual_time = models.FloatField(default=0.0)
    declared = models.JSONField(default=dict, blank=True, help_text="As written in the configuration file.")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(window__gte=1), name="pool_window_positive")]

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


class ResourceMove(Move):
    """The history of the sessions."""

    subject_id = models.BigIntegerField(db_index=True)

    class Meta:
        verbose_name, verbose_name_plural = "move of a session", "moves of sessions"
        triggers = history_triggers()


RESOURCE.bind(Resource, resource_moved, carry=["pool_id", "job_id", "fence", "available_at", "disabled", "rest_until"])
