"""What attempts use of upstream accounts, and jobs that no account can pay for."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0005_words_of_the_pages'),
        ('pool', '0005_upstream_credits'),
        ('tenants', '0003_budgets'),
    ]

    operations = [
        migrations.AddField(
            model_name='attempt',
            name='reported_cost',
            field=models.BigIntegerField(help_text='What the upstream says it took of the account.', null=True),
        ),
        migrations.AddField(
            model_name='attempt',
            name='usage_problem',
            field=models.TextField(blank=True, db_default='', help_text='Why its usage could not be believed.'),
        ),
        migrations.AddField(
            model_name='job',
            name='cost',
            field=models.BigIntegerField(db_default=0, help_text='What an attempt is expected to use of an upstream account.'),
        ),
        migrations.AddField(
            model_name='job',
            name='unaffordable',
            field=models.BooleanField(db_default=False, help_text='No upstream account can pay for it now; looked at again when one can, or at due_at.'),
        ),
        migrations.AddField(
            model_name='jobtype',
            name='cost',
            field=models.TextField(blank=True, db_default='', help_text="CEL, in the account's credits: what an attempt uses of it. Empty: the price."),
        ),
    ]
