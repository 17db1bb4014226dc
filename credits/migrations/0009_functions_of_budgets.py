"""The verbs of the ledger with budgets, pace and debts, and those of upstream accounts. What tenants owed is counted once.

The files beside this one are part of it and are never edited: a later migration replaces a function.
"""

from pathlib import Path

from django.db import migrations

BEFORE = Path(__file__).parent / "functions_0005"
FOLDER = Path(__file__).parent / "functions_0009"
FILES = ["why_refused", "ceiling_used", "fund_lot", "place_holds", "close_holds", "upstream_accounts"]
# Processes of the version before hold as they did, budgets included; the pace is not asked of them.
BEFORE_ASKS = """
CREATE OR REPLACE FUNCTION credits_place_holds(
    tenant bigint, jobs uuid[], runs integer[], amounts bigint[], review_seconds double precision
) RETURNS bigint LANGUAGE sql AS $$
    SELECT CASE WHEN refused IS NULL THEN placed_runs END
    FROM credits_place_holds(tenant, jobs, runs, amounts, review_seconds, false)
$$;
"""
DROP = """
DROP FUNCTION credits_close_upstream(uuid[], integer[], integer[], bigint[], text);
DROP FUNCTION credits_hold_upstream(text, bigint[], uuid[], integer[], integer[], bigint[], double precision);
DROP FUNCTION credits_place_holds(bigint, uuid[], integer[], bigint[], double precision);
DROP FUNCTION credits_place_holds(bigint, uuid[], integer[], bigint[], double precision, boolean);
DROP FUNCTION credits_close_holds(uuid[], integer[], bigint[], text[], text);
DROP FUNCTION credits_fund_lot(bigint, bigint, bigint, text, text, text, integer, timestamptz, bigint, bigint);
DROP FUNCTION credits_ceiling_refuses(date);
DROP FUNCTION credits_ceiling_used(date);
DROP FUNCTION credits_why_refused(credits_balance, bigint, date, bigint, bigint, bigint);
DROP FUNCTION credits_room(credits_balance);
"""
OWED = """
UPDATE credits_balance b SET owed = d.owed
FROM (SELECT w.id, sum(CASE WHEN t.debit_id = r.id THEN t.amount ELSE -t.amount END)::bigint AS owed
      FROM credits_account r
      JOIN credits_transfer t ON r.id IN (t.debit_id, t.credit_id)
      JOIN credits_account w ON w.ledger = r.ledger AND w.kind = 'wallet' AND w.owner_id = r.owner_id
      WHERE r.kind = 'receivable' GROUP BY w.id) d
WHERE b.account_id = d.id;
"""
# What was charged in this month before there were budgets.
CHARGED = """
UPDATE credits_balance b SET charged_on = c.last_on, month_charged = c.in_month, day_charged = c.in_day
FROM (SELECT account_id, last_on, sum(amount)::bigint AS in_month,
             (sum(amount) FILTER (WHERE charged_on = last_on))::bigint AS in_day
      FROM (SELECT h.account_id, t.amount, (t.created_at AT TIME ZONE 'UTC')::date AS charged_on,
                   max((t.created_at AT TIME ZONE 'UTC')::date) OVER (PARTITION BY h.account_id) AS last_on
            FROM credits_transfer t JOIN credits_hold h ON h.id = t.hold_id
            WHERE t.code IN ('settle', 'overrun_debt')
              AND t.created_at >= date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC') charges
      GROUP BY account_id, last_on) c
WHERE b.account_id = c.account_id;
"""


def _text(folder: Path, names: list[str]) -> str:
    return "\n".join((folder / f"{name}.sql").read_text(encoding="utf-8") for name in names)


class Migration(migrations.Migration):
    dependencies = [("credits", "0008_budgets_and_upstream_accounts")]
    operations = [
        migrations.RunSQL(
            _text(FOLDER, FILES) + BEFORE_ASKS,
            DROP + _text(BEFORE, ["fund_lot", "place_holds", "close_holds"]),
        ),
        migrations.RunSQL(OWED + CHARGED, migrations.RunSQL.noop),
    ]
