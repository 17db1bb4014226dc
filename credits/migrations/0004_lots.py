"""Lots, allowances, reversals, and the triggers that guard them."""

import django.db.models.deletion
import django.db.models.functions.datetime
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('credits', '0003_busy_tables'),
        ('tenants', '0002_words_of_the_pages'),
    ]

    operations = [
        migrations.CreateModel(
            name='Allowance',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='tenants.tenant')),
                ('amount', models.BigIntegerField(help_text='Micro-credits of each period')),
                ('every', models.TextField(choices=[('day', 'each day'), ('month', 'each month')])),
                ('category', models.TextField(choices=[('promo', 'a gift'), ('paid', 'paid for')], db_default='promo')),
                ('priority', models.SmallIntegerField(db_default=50, help_text='Lower is used first')),
                ('lifetime_seconds', models.BigIntegerField(blank=True, help_text='From the begin of its period; 0: until the next begins; empty: for ever', null=True)),
                ('enabled', models.BooleanField(db_default=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name='Lot',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='credits.account')),
                ('source_key', models.TextField(help_text='The key of the entry that made it')),
                ('category', models.TextField(choices=[('promo', 'a gift'), ('paid', 'paid for')])),
                ('priority', models.SmallIntegerField(db_default=50, help_text='Lower is used first')),
                ('amount', models.BigIntegerField()),
                ('remaining', models.BigIntegerField()),
                ('reserved', models.BigIntegerField(db_default=0, help_text='The part of what remains that open holds have')),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('spent', models.GeneratedField(db_persist=True, expression=models.Q(('remaining', 0)), output_field=models.BooleanField())),
            ],
        ),
        migrations.CreateModel(
            name='HoldLot',
            fields=[
                ('pk', models.CompositePrimaryKey('hold', 'lot', blank=True, editable=False, primary_key=True, serialize=False)),
                ('hold', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='lots', to='credits.hold')),
                ('lot', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='holds', to='credits.lot')),
                ('amount', models.BigIntegerField()),
                ('captured', models.BigIntegerField(blank=True, null=True)),
            ],
        ),
        migrations.AddField(
            model_name='transfer',
            name='reverses',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='reversals', to='credits.transfer'),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='hold',
            trigger=pgtrigger.compiler.Trigger(name='no_truncate', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot truncate table %', TG_TABLE_NAME;", hash='900aa53728cf67a3e27585d4c0398d8aca0e5f1d', level='STATEMENT', operation='TRUNCATE', pgid='pgtrigger_no_truncate_538d7', table='credits_hold', when='BEFORE')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='transfer',
            trigger=pgtrigger.compiler.Trigger(name='reversal_within_what_is_left', sql=pgtrigger.compiler.UpsertTriggerSql(condition='WHEN (NEW."reverses_id" IS NOT NULL)', declare='DECLARE reversed credits_transfer; so_far bigint;', func="\n    SELECT * INTO reversed FROM credits_transfer WHERE id = NEW.reverses_id FOR NO KEY UPDATE;\n    IF (reversed.debit_id, reversed.credit_id) IS DISTINCT FROM (NEW.credit_id, NEW.debit_id) THEN\n        RAISE EXCEPTION 'a reversal mirrors what it reverses'\n        USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_reversal_mirrors';\n    END IF;\n    SELECT coalesce(sum(amount), 0) INTO so_far FROM credits_transfer WHERE reverses_id = NEW.reverses_id;\n    IF so_far + NEW.amount > reversed.amount THEN\n        RAISE EXCEPTION 'reversed % of %, % more is too much', so_far, reversed.amount, NEW.amount\n        USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_reversal_within_what_is_left';\n    END IF;\n    RETURN NEW;\n", hash='35f15d8d561e034f68d0ae61c3ba62d76c8d5bf5', operation='INSERT', pgid='pgtrigger_reversal_within_what_is_left_28ae2', table='credits_transfer', when='BEFORE')),
        ),
        migrations.AddField(
            model_name='transfer',
            name='lot',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='transfers', to='credits.lot'),
        ),
        migrations.AddIndex(
            model_name='transfer',
            index=models.Index(condition=models.Q(('lot__isnull', False)), fields=['lot'], name='transfer_lot'),
        ),
        migrations.AddIndex(
            model_name='transfer',
            index=models.Index(condition=models.Q(('reverses__isnull', False)), fields=['reverses'], name='transfer_reverses'),
        ),
        migrations.AddConstraint(
            model_name='transfer',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('code', 'refund'), ('reverses__isnull', False)), models.Q(models.Q(('code', 'refund'), _negated=True), ('reverses__isnull', True)), _connector='OR'), name='transfer_refund_reverses'),
        ),
        migrations.AddConstraint(
            model_name='allowance',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gt', 0), ('amount__lte', 1000000000000000)), name='allowance_amount_in_range'),
        ),
        migrations.AddConstraint(
            model_name='allowance',
            constraint=models.CheckConstraint(condition=models.Q(('every__in', ['day', 'month'])), name='allowance_every_known'),
        ),
        migrations.AddConstraint(
            model_name='allowance',
            constraint=models.CheckConstraint(condition=models.Q(('category__in', ['promo', 'paid'])), name='allowance_category_known'),
        ),
        migrations.AddConstraint(
            model_name='allowance',
            constraint=models.CheckConstraint(condition=models.Q(('lifetime_seconds__isnull', True), ('lifetime_seconds__gte', 0), _connector='OR'), name='allowance_lifetime_not_negative'),
        ),
        migrations.AddIndex(
            model_name='lot',
            index=models.Index(condition=models.Q(('spent', False)), fields=['account'], name='lot_of_account'),
        ),
        migrations.AddIndex(
            model_name='lot',
            index=models.Index(condition=models.Q(('expires_at__isnull', False), ('spent', False)), fields=['expires_at', 'account'], name='lot_by_expiry'),
        ),
        migrations.AddConstraint(
            model_name='lot',
            constraint=models.UniqueConstraint(fields=('source_key',), name='lot_source_key'),
        ),
        migrations.AddConstraint(
            model_name='lot',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gt', 0)), name='lot_amount_positive'),
        ),
        migrations.AddConstraint(
            model_name='lot',
            constraint=models.CheckConstraint(condition=models.Q(('category__in', ['promo', 'paid'])), name='lot_category_known'),
        ),
        migrations.AddConstraint(
            model_name='lot',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gte', models.F('remaining')), ('remaining__gte', models.F('reserved')), ('reserved__gte', 0)), name='lot_reserved_within_remaining_within_amount'),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='lot',
            trigger=pgtrigger.compiler.Trigger(name='no_delete', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;", hash='4a18d2fc14dbb1093e8633aaa76fb029623160b4', operation='DELETE', pgid='pgtrigger_no_delete_55c5b', table='credits_lot', when='BEFORE')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='lot',
            trigger=pgtrigger.compiler.Trigger(name='terms_fixed', sql=pgtrigger.compiler.UpsertTriggerSql(condition='WHEN (OLD."account_id" IS DISTINCT FROM (NEW."account_id") OR OLD."source_key" IS DISTINCT FROM (NEW."source_key") OR OLD."category" IS DISTINCT FROM (NEW."category") OR OLD."amount" IS DISTINCT FROM (NEW."amount"))', func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;", hash='14d1e9c4098645e0ac3bad23c0d86203a5e23c1f', operation='UPDATE', pgid='pgtrigger_terms_fixed_810bf', table='credits_lot', when='BEFORE')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='lot',
            trigger=pgtrigger.compiler.Trigger(name='no_truncate', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot truncate table %', TG_TABLE_NAME;", hash='dae99f78a47f871e66066e3c0dc39b7a761c257c', level='STATEMENT', operation='TRUNCATE', pgid='pgtrigger_no_truncate_4b67f', table='credits_lot', when='BEFORE')),
        ),
        migrations.AddConstraint(
            model_name='holdlot',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gt', 0)), name='holdlot_amount_positive'),
        ),
        migrations.AddConstraint(
            model_name='holdlot',
            constraint=models.CheckConstraint(condition=models.Q(('captured__isnull', True), models.Q(('captured__gte', 0), ('captured__lte', models.F('amount'))), _connector='OR'), name='holdlot_captured_within_amount'),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='holdlot',
            trigger=pgtrigger.compiler.Trigger(name='no_delete', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;", hash='988c7a09daa83d64231e4b76c1a66b592ea2d84a', operation='DELETE', pgid='pgtrigger_no_delete_12ec6', table='credits_holdlot', when='BEFORE')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='holdlot',
            trigger=pgtrigger.compiler.Trigger(name='resolved_once', sql=pgtrigger.compiler.UpsertTriggerSql(condition='WHEN (OLD."captured" IS NOT NULL)', func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;", hash='916620dd7fa459117cbacea7c697033fb5a56555', operation='UPDATE', pgid='pgtrigger_resolved_once_7c559', table='credits_holdlot', when='BEFORE')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='holdlot',
            trigger=pgtrigger.compiler.Trigger(name='terms_fixed', sql=pgtrigger.compiler.UpsertTriggerSql(condition='WHEN (OLD."hold_id" IS DISTINCT FROM (NEW."hold_id") OR OLD."lot_id" IS DISTINCT FROM (NEW."lot_id") OR OLD."amount" IS DISTINCT FROM (NEW."amount"))', func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;", hash='af5e425ece338a6ffe863df2e0d051971b3c3cf0', operation='UPDATE', pgid='pgtrigger_terms_fixed_e7748', table='credits_holdlot', when='BEFORE')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='holdlot',
            trigger=pgtrigger.compiler.Trigger(name='no_truncate', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot truncate table %', TG_TABLE_NAME;", hash='95c36951dc21a8d409be2517f9f63b88bfd439b1', level='STATEMENT', operation='TRUNCATE', pgid='pgtrigger_no_truncate_36633', table='credits_holdlot', when='BEFORE')),
        ),
    ]
