"""The foreign keys of jobs are checked by the statement that writes them, not by the commit.

Django defers them to the commit, where every check is made under the lock of the balance, and all who want the same tenant
wait for it. A job is written before that lock is taken.
"""

from django.db import migrations

ALTER = """
DO $$
DECLARE
    key record;
BEGIN
    FOR key IN SELECT conname FROM pg_constraint WHERE contype = 'f' AND conrelid = 'jobs_job'::regclass
    LOOP
        EXECUTE format('ALTER TABLE jobs_job ALTER CONSTRAINT %I {how}', key.conname);
    END LOOP;
END $$
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0011_functions_of_the_line")]
    operations = [
        migrations.RunSQL(
            ALTER.replace("{how}", "NOT DEFERRABLE"), ALTER.replace("{how}", "DEFERRABLE INITIALLY DEFERRED")
        )
    ]
