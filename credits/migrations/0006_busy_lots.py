"""Room in the pages of the lots and what stands on them, as for balances and holds: each is updated by hold and closing."""

from django.db import migrations

FORWARD = """
ALTER TABLE credits_lot SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
                             autovacuum_vacuum_cost_delay = 0);
ALTER TABLE credits_holdlot SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
                                 autovacuum_vacuum_cost_delay = 0);
"""
BACKWARD = """
ALTER TABLE credits_lot RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
                               autovacuum_vacuum_cost_delay);
ALTER TABLE credits_holdlot RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
                                   autovacuum_vacuum_cost_delay);
"""


class Migration(migrations.Migration):
    dependencies = [("credits", "0005_functions")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
