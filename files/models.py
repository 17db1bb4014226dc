"""Files of tenants, which jobs refer to them, and how many bytes each tenant keeps.

A row is written before its first byte and outlives its last one: whatever crashes between leaves a row that says what is
to be cleaned up. Arriving (no `stored_at`) → stored → leaving (nobody may use it any more) → gone (no bytes are left).
"""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.models import Tenant


class File(models.Model):
    """One file. `size` is in bytes; while it arrives, as many as were announced."""

    class Kind(models.TextChoices):
        INPUT = "input", "input: sent by the tenant"
        RESULT = "result", "result: made by an upstream"

    id = models.UUIDField(primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="files", db_index=False)
    kind = models.CharField(max_length=10, choices=Kind)
    name = models.CharField(max_length=255, blank=True)
    content_type = models.CharField(max_length=255)
    size = models.BigIntegerField()
    sha256 = models.CharField(max_length=64, blank=True)
    place = models.CharField(max_length=100, unique=True, help_text="Its name in the storage.")
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(help_text="Not before; later while a job that has not ended refers to it.")
    stored_at = models.DateTimeField(null=True, help_text="When its last byte was written; empty: it arrives.")
    leaving_at = models.DateTimeField(null=True, help_text="From when on it may not be used; its bytes are deleted.")
    gone_at = models.DateTimeField(null=True, help_text="When its bytes were deleted.")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(size__gte=0), name="file_size_not_negative"),
            models.CheckConstraint(condition=Q(stored_at__isnull=True) | ~Q(sha256=""), name="file_stored_has_digest"),
            models.CheckConstraint(
                condition=Q(gone_at__isnull=True) | Q(leaving_at__isnull=False), name="file_gone_has_left"
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "-id"], name="file_by_tenant"),
            models.Index(fields=["expires_at", "id"], condition=Q(leaving_at__isnull=True), name="file_expiring"),
            models.Index(
                fields=["leaving_at", "id"],
                condition=Q(leaving_at__isnull=False, gone_at__isnull=True),
                name="file_leaving",
            ),
            models.Index(fields=["gone_at"], condition=Q(gone_at__isnull=False), name="file_gone"),
        ]

    def __str__(self) -> str:
        return str(self.id)


class Reference(models.Model):
    """A job that needs the file, or made it. `job_id` is a plain column: nothing is known here of jobs."""

    file = models.ForeignKey(File, on_delete=models.PROTECT, related_name="references", db_index=False)
    job_id = models.UUIDField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["file", "job_id"], name="one_reference_per_file_and_job")]

    def __str__(self) -> str:
        return f"{self.file_id} of job {self.job_id}"


class Usage(models.Model):
    """The bytes of a tenant's files that are not gone. Its row is locked by whoever adds or takes some."""

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, primary_key=True, related_name="+")
    input_bytes = models.BigIntegerField(default=0)
    result_bytes = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(input_bytes__gte=0) & Q(result_bytes__gte=0), name="usage_not_negative")
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id}: {self.input_bytes} + {self.result_bytes}"
