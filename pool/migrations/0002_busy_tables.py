"""Room for HOT updates in the sessions and the pools, whose rows move with every job."""

from django.db import migrations

_BUSY = "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0"


class Migration(migrations.Migration):
    dependencies = [("pool", "0001_initial")]

    operations = [
        migrations.RunSQL(
            f"""
            ALTER TABLE pool_resource SET (fillfactor = 50, {_BUSY});
            ALTER TABLE pool_pool SET (fillfactor = 50, {_BUSY});
            """,
            "ALTER TABLE pool_resource RESET (fillfactor); ALTER TABLE pool_pool RESET (fillfactor);",
        ),
    ]
