"""What attempts owe whose results lie behind links."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0009_asking'),
        ('pool', '0005_upstream_credits'),
    ]

    operations = [
        migrations.AddField(
            model_name='attempt',
            name='fetch_at',
            field=models.DateTimeField(help_text='When they are fetched, or taken up by another; empty: none.', null=True),
        ),
        migrations.AddField(
            model_name='attempt',
            name='fetch_tries',
            field=models.PositiveSmallIntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name='attempt',
            name='links',
            field=models.JSONField(help_text="Name → link of its result's files that are yet to be fetched.", null=True),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(condition=models.Q(('fetch_at__isnull', False)), fields=['fetch_at'], name='attempt_to_fetch'),
        ),
    ]
