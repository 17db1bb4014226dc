"""What the pages call the rows; nothing in the database changes."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('pool', '0003_operators_word'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='resource',
            options={'verbose_name': 'session', 'verbose_name_plural': 'sessions'},
        ),
        migrations.AlterModelOptions(
            name='resourcemove',
            options={'verbose_name': 'move of a session', 'verbose_name_plural': 'moves of sessions'},
        ),
        migrations.AlterModelOptions(
            name='upstreamaccount',
            options={'verbose_name': 'account', 'verbose_name_plural': 'accounts'},
        ),
    ]
