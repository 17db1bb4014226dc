"""Find the jobs that no account can pay for; built without stopping the writers."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0006_upstream_credits")]
    operations = [
        AddIndexConcurrently(
            "job",
            models.Index(
                fields=["pool", "cost"],
                condition=models.Q(state="pending", unaffordable=True),
                name="job_unaffordable",
            ),
        ),
    ]
