"""After a restore a pool gives no session until what the lost commits may have begun is over."""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pool', '0008_refusals'),
    ]

    operations = [
        migrations.CreateModel(
            name='Restoration',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('went_back_to', models.DateTimeField(null=True)),
                ('note', models.TextField(blank=True)),
                ('actor', models.TextField(blank=True)),
            ],
        ),
        migrations.AddField(
            model_name='pool',
            name='quarantine_note',
            field=models.TextField(blank=True, db_default='', editable=False),
        ),
        migrations.AddField(
            model_name='pool',
            name='quarantined_at',
            field=models.DateTimeField(blank=True, editable=False, help_text='Since a restore: no session is given to a job.', null=True),
        ),
        migrations.AddField(
            model_name='pool',
            name='quarantined_until',
            field=models.DateTimeField(blank=True, editable=False, help_text='Until then what the lost commits began may run.', null=True),
        ),
        migrations.AddField(
            model_name='resource',
            name='quarantined',
            field=models.BooleanField(db_default=False, editable=False, help_text='Its pool is closed since a restore: it is given to nobody.'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('quarantined_at__isnull', True), ('quarantined_until__isnull', True)), models.Q(('quarantined_at__isnull', False), ('quarantined_until__isnull', False)), _connector='OR'), name='pool_quarantine_has_an_end'),
        ),
    ]
