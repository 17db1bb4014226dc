"""The verbs of the ledger inside the database: one round trip each, and each inner statement has a snapshot of its own.

A statement that waits for a lock goes on with the snapshot it began with. What lies under the balance (lots, entries) is
therefore read in a later statement than the one that locks it, which plain SQL cannot do in one call. The files beside
this one are part of it and are never edited: a later migration replaces a function.
"""

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parent / "functions_0005"
FILES = ["expire_lots", "cover_debt", "fund_lot", "place_holds", "close_holds", "expire_due"]
BACKWARD = """
DROP FUNCTION credits_expire_due(integer);
DROP FUNCTION credits_close_holds(uuid[], integer[], bigint[], text[], text);
DROP FUNCTION credits_place_holds(bigint, uuid[], integer[], bigint[], double precision);
DROP FUNCTION credits_fund_lot(bigint, bigint, bigint, text, text, text, integer, timestamptz, bigint, bigint);
DROP FUNCTION credits_cover_debt(bigint[]);
DROP FUNCTION credits_expire_lots(bigint[], timestamptz);
"""


class Migration(migrations.Migration):
    dependencies = [("credits", "0004_lots")]
    operations = [
        migrations.RunSQL("\n".join((FOLDER / f"{name}.sql").read_text(encoding="utf-8") for name in FILES), BACKWARD)
    ]
