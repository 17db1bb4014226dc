"""Pools whose accounts have a balance."""

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
    ]
