"""What budgets count, what is owed and read, and a ceiling over all tenants."""

import django.db.models.deletion
import django.db.models.functions.datetime
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('credits', '0007_lots_of_earlier_grants'),
        ('tenants', '0003_budgets'),
    ]

    operations = [
        migrations.CreateModel(
            name='Ceiling',
            fields=[
                ('id', models.SmallIntegerField(db_default=1, primary_key=True, serialize=False)),
                ('day_budget', models.BigIntegerField(blank=True, help_text='Micro-credits. Empty: no budget', null=True)),
                ('month_budget', models.BigIntegerField(blank=True, help_text='Micro-credits. Empty: no budget', null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Reading',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.TextField(help_text='Of this reading, once per account')),
                ('said', models.BigIntegerField(help_text='Micro-credits that the provider said are left')),
                ('posted', models.BigIntegerField(help_text='What the ledger had then')),
                ('held', models.BigIntegerField(help_text='What attempts in flight had of it')),
                ('drift', models.BigIntegerField(help_text='What attempts in flight do not explain')),
                ('booked', models.BooleanField(help_text='Off: too far off to be believed without an operator')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.AddField(
            model_name='balance',
            name='charged_on',
            field=models.DateField(blank=True, help_text='The day (UTC) of the last charge', null=True),
        ),
        migrations.AddField(
            model_name='balance',
            name='day_charged',
            field=models.BigIntegerField(db_default=0, help_text='Charged on that day'),
        ),
        migrations.AddField(
            model_name='balance',
            name='low_since',
            field=models.DateTimeField(blank=True, help_text='When the tenant was told that little is left', null=True),
        ),
        migrations.AddField(
            model_name='balance',
            name='month_charged',
            field=models.BigIntegerField(db_default=0, help_text='Charged in the month of that day'),
        ),
        migrations.AddField(
            model_name='balance',
            name='owed',
            field=models.BigIntegerField(db_default=0, help_text='Usage above holds that the tenant has yet to pay'),
        ),
        migrations.AddField(
            model_name='balance',
            name='paced_until',
            field=models.DateTimeField(blank=True, help_text='No submit before, while little is left', null=True),
        ),
        migrations.AddConstraint(
            model_name='balance',
            constraint=models.CheckConstraint(condition=models.Q(('owed__gte', 0)), name='balance_owed_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='ceiling',
            constraint=models.CheckConstraint(condition=models.Q(('id', 1)), name='ceiling_is_one'),
        ),
        migrations.AddConstraint(
            model_name='ceiling',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('day_budget__isnull', True), ('day_budget__gte', 0), _connector='OR'), models.Q(('month_budget__isnull', True), ('month_budget__gte', 0), _connector='OR')), name='ceiling_not_negative'),
        ),
        migrations.AddField(
            model_name='reading',
            name='account',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='credits.account'),
        ),
        migrations.AddConstraint(
            model_name='reading',
            constraint=models.UniqueConstraint(fields=('account', 'key'), name='reading_once_per_account'),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='reading',
            trigger=pgtrigger.compiler.Trigger(name='append_only', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;", hash='49bca1c99f2f63c38f4cf641b8f5bb41dfc6d5ed', operation='UPDATE OR DELETE', pgid='pgtrigger_append_only_2a2a4', table='credits_reading', when='BEFORE')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='reading',
            trigger=pgtrigger.compiler.Trigger(name='no_truncate', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot truncate table %', TG_TABLE_NAME;", hash='4d4637f328ab10adfc64a9a5a4bad01c887dd709', level='STATEMENT', operation='TRUNCATE', pgid='pgtrigger_no_truncate_ff8b7', table='credits_reading', when='BEFORE')),
        ),
    ]
