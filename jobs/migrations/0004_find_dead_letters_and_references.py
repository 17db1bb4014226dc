"""Dead letters by pool and age, attempts by the upstream's reference; built beside the running work."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("jobs", "0003_runs_and_dead_letters")]

    operations = [
        AddIndexConcurrently(
            model_name='attempt',
            index=models.Index(condition=models.Q(('reference', ''), _negated=True), fields=['reference'], name='attempt_by_reference'),
        ),
        AddIndexConcurrently(
            model_name='job',
            index=models.Index(condition=models.Q(('dismissed_at__isnull', True), ('state', 'failed')), fields=['pool', 'finished_at', 'id'], name='job_dead_letter'),
        ),
    ]
