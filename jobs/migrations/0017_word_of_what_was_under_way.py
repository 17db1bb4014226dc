"""One more word of what came of a suspicion: its attempt was still being found out when the pool opened."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0016_history_is_not_truncated'),
    ]

    operations = [
        migrations.AlterField(
            model_name='suspicion',
            name='decided',
            field=models.CharField(blank=True, choices=[('never_sent', 'the upstream knows none of its keys'), ('found', 'the upstream knows one of them: its attempt was opened again'), ('same_key', 'sent again under the key it had, which its only account deduplicates'), ('may_repeat', 'its type allows repeats'), ('nobody_knows', 'nobody can tell: it failed with outcome_unknown'), ('ended', 'it ended meanwhile'), ('under_way', 'its attempt was still being found out when the pool opened'), ('operator', 'an operator knows that it did not run, or wants it repeated')], max_length=20),
        ),
    ]
