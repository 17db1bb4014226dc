"""Accounts that have a balance, and their pools."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pool', '0004_words_of_the_pages'),
    ]

    operations = [
        migrations.AddField(
            model_name='pool',
            name='tracks_credits',
            field=models.BooleanField(db_default=False, help_text='Accounts of it have a balance: none is chosen for a job that it cannot pay for.'),
        ),
        migrations.AddField(
            model_name='upstreamaccount',
            name='tracked_since',
            field=models.DateTimeField(blank=True, help_text='Since when it pays by attempt of what it has at its provider. Empty: not tracked.', null=True),
        ),
    ]
