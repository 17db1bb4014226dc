"""Histories and evidence cannot be emptied at once either."""

import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0015_suspicions'),
    ]

    operations = [
        pgtrigger.migrations.AddTrigger(
            model_name='evidence',
            trigger=pgtrigger.compiler.Trigger(name='no_truncate', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot truncate table %', TG_TABLE_NAME;", hash='6b43d8fedb79fc3fef999320e8185b2e8cd7488f', level='STATEMENT', operation='TRUNCATE', pgid='pgtrigger_no_truncate_45466', table='jobs_evidence', when='BEFORE')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='jobmove',
            trigger=pgtrigger.compiler.Trigger(name='no_truncate', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot truncate table %', TG_TABLE_NAME;", hash='2a95f7abcdadcbc14e2cb4aaa3d4383e11c01acf', level='STATEMENT', operation='TRUNCATE', pgid='pgtrigger_no_truncate_4b558', table='jobs_jobmove', when='BEFORE')),
        ),
    ]
