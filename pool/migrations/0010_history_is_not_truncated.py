"""Histories and evidence cannot be emptied at once either."""

import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('pool', '0009_quarantine_after_a_restore'),
    ]

    operations = [
        pgtrigger.migrations.AddTrigger(
            model_name='resourcemove',
            trigger=pgtrigger.compiler.Trigger(name='no_truncate', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot truncate table %', TG_TABLE_NAME;", hash='770fbe1f522ba5f9d82034822f4407e81d98e9f5', level='STATEMENT', operation='TRUNCATE', pgid='pgtrigger_no_truncate_e2737', table='pool_resourcemove', when='BEFORE')),
        ),
    ]
