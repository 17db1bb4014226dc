"""How long the upstream may work at a call, kept with it: its type may say less by the time nobody knows what came of it."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0019_what_a_call_was_made_of'),
    ]

    operations = [
        migrations.AddField(
            model_name='attempt',
            name='over_ms',
            field=models.BigIntegerField(help_text='So long after its intent its session is certainly over: a lease, and max_runtime as it was.', null=True),
        ),
    ]
