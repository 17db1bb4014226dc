"""How many jobs an account refused in a row: a tenant that is alone in its pool has nobody who confirms it."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pool', '0007_health_of_accounts'),
    ]

    operations = [
        migrations.AddField(
            model_name='accounthealth',
            name='refusals',
            field=models.PositiveIntegerField(db_default=0, help_text='Different jobs in a row that it refused.'),
        ),
    ]
