"""The foreign keys of holds are checked by the statement that writes them, not by the commit.

Django defers them to the commit, where every check is made under the lock of the balance, and all who want the same tenant
wait for it. A hold is written before that lock is taken.
"""

from django.db import migrations

ALTER = """
DO $$
DECLARE
    key record;
BEGIN
    FOR key IN SELECT conrelid::regclass AS of_table, conname FROM pg_constraint
               WHERE contype = 'f' AND conrelid IN ('credits_hold'::regclass, 'credits_holdlot'::regclass)
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER CONSTRAINT %I {how}', key.of_table, key.conname);
    END LOOP;
END $$
"""


class Migration(migrations.Migration):
    dependencies = [("credits", "0011_find_newest_readings")]
    operations = [
        migrations.RunSQL(
            ALTER.replace("{how}", "NOT DEFERRABLE"), ALTER.replace("{how}", "DEFERRABLE INITIALLY DEFERRED")
        )
    ]
