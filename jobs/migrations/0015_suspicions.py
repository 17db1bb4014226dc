"""Jobs that commits which were lost may have sent, until it is decided what that means."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0013_redrives'),
        ('pool', '0009_quarantine_after_a_restore'),
    ]

    operations = [
        migrations.CreateModel(
            name='Suspicion',
            fields=[
                ('job', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='+', serialize=False, to='jobs.job')),
                ('since', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='When the database went back.')),
                ('look_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='When its upstream is asked.')),
                ('asks_failed', models.PositiveIntegerField(default=0, help_text='Askings in a row that told nothing.')),
                ('decided', models.CharField(blank=True, choices=[('never_sent', 'the upstream knows none of its keys'), ('found', 'the upstream knows one of them: its attempt was opened again'), ('same_key', 'sent again under the key it had, which its only account deduplicates'), ('may_repeat', 'its type allows repeats'), ('nobody_knows', 'nobody can tell: it failed with outcome_unknown'), ('ended', 'it ended meanwhile'), ('operator', 'an operator knows that it did not run, or wants it repeated')], max_length=20)),
                ('decided_at', models.DateTimeField(null=True)),
                ('attempt', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='jobs.attempt')),
                ('pool', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pool.pool')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('decided_at__isnull', True)), fields=['pool', 'look_at'], name='suspicion_undecided')],
            },
        ),
    ]
