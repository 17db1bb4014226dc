"""Successes that surfaced after their attempt had ended otherwise, until it is decided what that means."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0007_find_unaffordable'),
    ]

    operations = [
        migrations.CreateModel(
            name='LateCompletion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('run', models.PositiveIntegerField()),
                ('units', models.FloatField(null=True)),
                ('reference', models.TextField(blank=True, help_text="The upstream's own, of this answer.")),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('look_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='When it is decided, or asked again.')),
                ('decided_at', models.DateTimeField(null=True)),
                ('booked', models.BigIntegerField(default=0, help_text='From loss to revenue, in micro-credits.')),
                ('why', models.TextField(blank=True, help_text='Why nothing was booked.')),
                ('attempt', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='jobs.attempt')),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='jobs.job')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('decided_at__isnull', True)), fields=['look_at'], name='latecompletion_undecided')],
                'constraints': [models.UniqueConstraint(fields=('job', 'run'), name='one_late_completion_per_run')],
            },
        ),
    ]
