"""Budgets of a tenant, and from where on its credits are low."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0002_words_of_the_pages'),
    ]

    operations = [
        migrations.AddField(
            model_name='tenant',
            name='day_budget',
            field=models.BigIntegerField(blank=True, help_text='Micro-credits charged and held in a day of UTC. Empty: no budget.', null=True),
        ),
        migrations.AddField(
            model_name='tenant',
            name='low_below',
            field=models.BigIntegerField(blank=True, help_text='Micro-credits: with less available, credits.low is told and submits are paced.', null=True),
        ),
        migrations.AddField(
            model_name='tenant',
            name='low_pause_ms',
            field=models.PositiveIntegerField(db_default=1000, help_text='Between two submits while credits are low.'),
        ),
        migrations.AddField(
            model_name='tenant',
            name='month_budget',
            field=models.BigIntegerField(blank=True, help_text='The same for a month.', null=True),
        ),
        migrations.AddConstraint(
            model_name='tenant',
            constraint=models.CheckConstraint(condition=models.Q(('day_budget__isnull', True), ('day_budget__gte', 0), _connector='OR'), name='tenant_day_budget_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='tenant',
            constraint=models.CheckConstraint(condition=models.Q(('month_budget__isnull', True), ('month_budget__gte', 0), _connector='OR'), name='tenant_month_budget_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='tenant',
            constraint=models.CheckConstraint(condition=models.Q(('low_below__isnull', True), ('low_below__gte', 0), _connector='OR'), name='tenant_low_below_not_negative'),
        ),
    ]
