"""Redrives: dead letters of one filter that run again one after the other, at a rate."""

import django.db.models.functions.datetime
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0012_jobs_are_checked_before_the_lock'),
    ]

    operations = [
        migrations.CreateModel(
            name='Redrive',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('filter', models.JSONField(default=dict, help_text='code, type, pool, tenant, since, until: what is said of them.')),
                ('rate', models.FloatField(help_text='Replays per second, at most.')),
                ('most', models.PositiveIntegerField(help_text='Replays in all, at most.', null=True)),
                ('why', models.TextField()),
                ('token', models.CharField(help_text='One page that is sent twice begins one.', max_length=32, unique=True)),
                ('actor', models.TextField(help_text='Who began it.')),
                ('state', models.CharField(choices=[('running', 'Running'), ('stopped', 'Stopped'), ('done', 'Done')], default='running', max_length=10)),
                ('replayed', models.PositiveIntegerField(default=0)),
                ('refused', models.PositiveIntegerField(default=0, help_text='Stayed dead letters.')),
                ('reasons', models.JSONField(default=dict, help_text='Why they were refused → how many.')),
                ('seen_at', models.DateTimeField(help_text='The letter looked at last: when it had failed.', null=True)),
                ('seen_id', models.UUIDField(help_text='Its id.', null=True)),
                ('paced_until', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='Up to here its rate is used.')),
                ('began_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('ended_at', models.DateTimeField(null=True)),
                ('ended_by', models.TextField(blank=True, default='', help_text='Who stopped it.')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state', 'running')), fields=['id'], name='redrive_running')],
                'constraints': [models.CheckConstraint(condition=models.Q(('rate__gt', 0), ('rate__lte', 100.0)), name='redrive_rate_in_bounds'), models.CheckConstraint(condition=models.Q(('most__isnull', True), ('replayed__lte', models.F('most')), _connector='OR'), name='redrive_within_its_most'), models.CheckConstraint(condition=models.Q(models.Q(('state', 'running'), ('ended_at__isnull', True)), models.Q(models.Q(('state', 'running'), _negated=True), ('ended_at__isnull', False)), _connector='OR'), name='redrive_ended_iff_not_running')],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='redrive',
            trigger=pgtrigger.compiler.Trigger(name='redrives_only_end', sql=pgtrigger.compiler.UpsertTriggerSql(declare='DECLARE _is_valid_transition BOOLEAN;', func='SELECT CONCAT(OLD."state", \':\', NEW."state") = ANY(\'{running:stopped,running:done}\'::text[]) INTO _is_valid_transition; IF (_is_valid_transition IS FALSE AND OLD."state" IS DISTINCT FROM NEW."state") THEN RAISE EXCEPTION \'pgtrigger: Invalid transition of field "state" from "%" to "%" on table %\', OLD."state", NEW."state", TG_TABLE_NAME; ELSE RETURN NEW; END IF;', hash='de9e74a4dadca0f43746d03f2806d50e47112b2f', operation='UPDATE', pgid='pgtrigger_redrives_only_end_2cd6c', table='jobs_redrive', when='BEFORE')),
        ),
    ]
