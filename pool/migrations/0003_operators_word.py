"""What an operator wants of a session: drained, disabled or in quarantine, with the reason; and the moves for it."""

import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pool', '0002_busy_tables'),
    ]

    operations = [
        pgtrigger.migrations.RemoveTrigger(
            model_name='resource',
            name='legal_moves',
        ),
        migrations.AddField(
            model_name='resource',
            name='disabled',
            field=models.BooleanField(db_default=False, help_text='To be offline as soon as what runs has ended.'),
        ),
        migrations.AddField(
            model_name='resource',
            name='note',
            field=models.TextField(blank=True, db_default='', help_text='Why it is drained, disabled or quarantined, and by whom.'),
        ),
        migrations.AddField(
            model_name='resource',
            name='rest_until',
            field=models.DateTimeField(blank=True, help_text='Quarantine: nothing begins before.', null=True),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='resource',
            trigger=pgtrigger.compiler.Trigger(name='legal_moves', sql=pgtrigger.compiler.UpsertTriggerSql(declare='DECLARE _is_valid_transition BOOLEAN;', func='SELECT CONCAT(OLD."state", \':\', NEW."state") = ANY(\'{available:cooldown,available:offline,available:reserved,busy:available,busy:cooldown,cooldown:available,cooldown:offline,offline:available,reserved:available,reserved:busy}\'::text[]) INTO _is_valid_transition; IF (_is_valid_transition IS FALSE AND OLD."state" IS DISTINCT FROM NEW."state") THEN RAISE EXCEPTION \'pgtrigger: Invalid transition of field "state" from "%" to "%" on table %\', OLD."state", NEW."state", TG_TABLE_NAME; ELSE RETURN NEW; END IF;', hash='d6fb5b6cea2a4e6b1a8aefd105fce91020a4f495', operation='UPDATE', pgid='pgtrigger_legal_moves_a369d', table='pool_resource', when='BEFORE')),
        ),
    ]
