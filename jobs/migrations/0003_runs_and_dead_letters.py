"""When each run was accepted, and which dead letters an operator put aside."""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0002_busy_tables'),
        ('pool', '0003_operators_word'),
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='dismissed_at',
            field=models.DateTimeField(help_text='When an operator put this dead letter aside.', null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='queued_at',
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='When this run was accepted: at submit, or by a replay.'),
        ),
    ]
