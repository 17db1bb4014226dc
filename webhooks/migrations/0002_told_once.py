"""Events that may be told once, by a key of their own."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('webhooks', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='event',
            name='key',
            field=models.TextField(help_text='What may be told once, whoever tells it; empty: guarded otherwise.', null=True),
        ),
        migrations.AddConstraint(
            model_name='event',
            constraint=models.UniqueConstraint(condition=models.Q(('key__isnull', False)), fields=('key',), name='one_event_per_key'),
        ),
    ]
