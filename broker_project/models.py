"""What the audit remembers of its last clean run."""

from django.db import models


class AuditFigure(models.Model):
    """One number of the checkpoint: the last final id of a table (subject 0), or a sum or id kept of one row."""

    name = models.TextField()
    subject_id = models.BigIntegerField(default=0)
    figure = models.DecimalField(max_digits=38, decimal_places=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "subject_id"], name="one_audit_figure_per_subject")]

    def __str__(self) -> str:
        return f"{self.name} {self.subject_id}: {self.figure}"
