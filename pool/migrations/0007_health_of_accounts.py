"""The health of pools and accounts, and the rests that the upstream and the breaker want of sessions."""

import django.db.models.deletion
from django.db import migrations, models

# What rests now does so for its reuse gap or Retry-After, or because an operator wants it to (rest_until).
ASKED = """UPDATE pool_resource SET asked_until = available_at
           WHERE state = 'cooldown' AND available_at IS DISTINCT FROM rest_until"""


class Migration(migrations.Migration):

    dependencies = [
        ('pool', '0006_asking'),
    ]

    operations = [
        migrations.CreateModel(
            name='AccountHealth',
            fields=[
                ('account', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='health', serialize=False, to='pool.upstreamaccount')),
                ('failures', models.PositiveIntegerField(default=0)),
                ('failed_at', models.DateTimeField(null=True)),
                ('asked_until', models.DateTimeField(null=True)),
                ('level', models.PositiveIntegerField(default=0)),
                ('opened_at', models.DateTimeField(null=True)),
                ('open_until', models.DateTimeField(null=True)),
                ('probe_id', models.BigIntegerField(null=True)),
                ('why', models.TextField(blank=True, default='')),
                ('refused_job', models.UUIDField(null=True)),
                ('refused_tenant', models.BigIntegerField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='PoolHealth',
            fields=[
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='health', serialize=False, to='pool.pool')),
                ('failing_since', models.DateTimeField(help_text='The first failure without a success after it.', null=True)),
                ('failed_at', models.DateTimeField(help_text='The last failure that may have a common cause.', null=True)),
                ('succeeded_at', models.DateTimeField(help_text='The last success that was told after failures.', null=True)),
                ('level', models.PositiveIntegerField(default=0)),
                ('opened_at', models.DateTimeField(null=True)),
                ('open_until', models.DateTimeField(null=True)),
                ('probe_id', models.BigIntegerField(help_text='The session that comes back first.', null=True)),
                ('why', models.TextField(blank=True, default='')),
            ],
        ),
        migrations.AddField(
            model_name='pool',
            name='breaker',
            field=models.JSONField(blank=True, db_default={}, default=dict, help_text='failures, quarantine_ms, max_ms; see pool/health.py.'),
        ),
        migrations.AddField(
            model_name='resource',
            name='asked_until',
            field=models.DateTimeField(blank=True, help_text='Reuse gap or Retry-After: nothing begins before.', null=True),
        ),
        migrations.AddField(
            model_name='resource',
            name='broken_until',
            field=models.DateTimeField(blank=True, help_text='Breaker: nothing begins before.', null=True),
        ),
        migrations.AddField(
            model_name='resource',
            name='refused',
            field=models.BooleanField(db_default=False, help_text='Disabled since the upstream refused the account, not by an operator.'),
        ),
        migrations.RunSQL(ASKED, migrations.RunSQL.noop),
    ]
