"""A redrive is not slower than one job in 17 minutes, and means at least one job: as it is asked for, so it is kept."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0017_word_of_what_was_under_way'),
    ]

    operations = [
        migrations.RunSQL(
            "UPDATE jobs_redrive SET rate = GREATEST(rate, 0.001),"
            " most = CASE WHEN most IS NOT NULL THEN LEAST(GREATEST(most, 1), 1000000000) END"
            " WHERE rate < 0.001 OR most < 1 OR most > 1000000000",
            migrations.RunSQL.noop,
        ),
        migrations.RemoveConstraint(
            model_name='redrive',
            name='redrive_rate_in_bounds',
        ),
        migrations.AddConstraint(
            model_name='redrive',
            constraint=models.CheckConstraint(condition=models.Q(('rate__gte', 0.001), ('rate__lte', 100.0)), name='redrive_rate_in_bounds'),
        ),
        migrations.AddConstraint(
            model_name='redrive',
            constraint=models.CheckConstraint(condition=models.Q(('most__isnull', True), models.Q(('most__gte', 1), ('most__lte', 1000000000)), _connector='OR'), name='redrive_most_in_bounds'),
        ),
    ]
