"""Room for HOT updates in the tables whose rows move often, and vacuum by count instead of by share."""

from django.db import migrations

_BUSY = "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0"


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial")]

    operations = [
        migrations.RunSQL(
            f"""
            ALTER TABLE jobs_job SET (fillfactor = 85, {_BUSY});
            ALTER TABLE jobs_attempt SET (fillfactor = 70, {_BUSY});
            ALTER TABLE jobs_line SET (fillfactor = 70);
            """,
            "ALTER TABLE jobs_job RESET (fillfactor); ALTER TABLE jobs_attempt RESET (fillfactor);",
        ),
    ]
