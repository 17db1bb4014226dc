"""Room in the pages of the tables that are updated, so that an update stays in its page and touches no index.

Balances are updated with every hold and closing, holds once. Vacuum comes by the number of dead rows, not by a share of a
table that only grows.
"""

from django.db import migrations

FORWARD = """
ALTER TABLE credits_balance SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
                                 autovacuum_vacuum_cost_delay = 0);
ALTER TABLE credits_hold SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
                              autovacuum_vacuum_cost_delay = 0);
"""
BACKWARD = """
ALTER TABLE credits_balance RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
                                   autovacuum_vacuum_cost_delay);
ALTER TABLE credits_hold RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
                                autovacuum_vacuum_cost_delay);
"""


class Migration(migrations.Migration):
    dependencies = [("credits", "0002_transfers_stay_in_their_ledger")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
