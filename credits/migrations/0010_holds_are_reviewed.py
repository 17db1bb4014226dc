"""Which open holds are to be looked at and when, and how far the walk through the holds has come."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('credits', '0009_functions_of_budgets'),
    ]

    operations = [
        migrations.CreateModel(
            name='HoldReview',
            fields=[
                ('hold', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='review', serialize=False, to='credits.hold')),
                ('due_at', models.DateTimeField(help_text='When it is looked at next')),
                ('needs_attention_since', models.DateTimeField(blank=True, null=True)),
                ('attention', models.TextField(blank=True, db_default='', help_text='Why an operator should look')),
            ],
            options={
                'indexes': [models.Index(fields=['due_at', 'hold'], name='holdreview_due'), models.Index(condition=models.Q(('needs_attention_since__isnull', False)), fields=['hold'], name='holdreview_attention')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('needs_attention_since__isnull', True), ('attention', '')), models.Q(('needs_attention_since__isnull', False), models.Q(('attention', ''), _negated=True)), _connector='OR'), name='holdreview_attention_has_a_reason')],
            },
        ),
        migrations.CreateModel(
            name='HoldWalk',
            fields=[
                ('id', models.SmallIntegerField(primary_key=True, serialize=False)),
                ('passed', models.BigIntegerField(db_default=0, help_text='Holds up to this id were looked at once')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='holdwalk_is_one_row')],
            },
        ),
    ]
