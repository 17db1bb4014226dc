"""Submit and promotion inside the database: one round trip each, of which a submit is a whole transaction.

A count is exact only in a statement younger than the one that locked the balance. From Python each is a round trip that
all who want the same tenant wait for; inside a plpgsql function each statement has a snapshot of its own. The files
beside this one are part of it and are never edited: a later migration replaces a function.
"""

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parent / "functions_0011"
FILES = ["give_turns", "enter"]
BACKWARD = """
DROP FUNCTION jobs_enter(uuid, integer, bigint, bigint, bigint, double precision, boolean, boolean);
DROP FUNCTION jobs_give_turns(bigint, bigint[]);
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0010_results_behind_links"), ("credits", "0009_functions_of_budgets")]
    operations = [
        migrations.RunSQL("\n".join((FOLDER / f"{name}.sql").read_text(encoding="utf-8") for name in FILES), BACKWARD)
    ]
