"""A wallet that was granted credits before there were lots gets one lot for each grant.

What it has used is taken from them, and what its open holds have set aside is reserved on them, in the order in which a
hold would use them. Nothing older than this may write meanwhile or afterwards: the table of balances is locked, and
processes of the earlier version have to be stopped before.
"""

from django.db import migrations

FORWARD = """
LOCK TABLE credits_balance IN SHARE ROW EXCLUSIVE MODE;

INSERT INTO credits_account (ledger, kind, owner_id)
SELECT 'tenant', 'breakage', NULL WHERE EXISTS (SELECT FROM credits_balance)
ON CONFLICT (ledger, kind, owner_id) DO NOTHING;

INSERT INTO credits_lot (account_id, source_key, category, amount, remaining, created_at)
SELECT g.account_id, g.op_key, g.category, g.amount, g.amount - greatest(0, least(g.amount, g.used - (g.up_to - g.amount))),
       g.created_at
FROM (
    SELECT t.id, t.credit_id AS account_id, t.op_key, t.amount, t.created_at, c.category,
           sum(t.amount) OVER (PARTITION BY t.credit_id) - b.posted AS used,
           sum(t.amount) OVER (PARTITION BY t.credit_id ORDER BY c.category = 'paid', t.id) AS up_to
    FROM credits_transfer t
    JOIN credits_balance b ON b.account_id = t.credit_id
    CROSS JOIN LATERAL (SELECT CASE t.code WHEN 'grant_promo' THEN 'promo' ELSE 'paid' END AS category) c
    WHERE NOT EXISTS (SELECT FROM credits_lot l WHERE l.account_id = t.credit_id)
) g
ORDER BY g.id;

-- The entries themselves stay as they are; the one that made a lot is told which it made.
SELECT set_config('pgtrigger.ignore',
                  '{credits_transfer:pgtrigger_append_only_5446e,pgtrigger_append_only_5446e}', true);
UPDATE credits_transfer t SET lot_id = l.id FROM credits_lot l WHERE l.source_key = t.op_key AND t.lot_id IS NULL;
SELECT set_config('pgtrigger.ignore', '', true);

WITH asked AS (
    SELECT h.id, h.account_id, h.amount, sum(h.amount) OVER (PARTITION BY h.account_id ORDER BY h.id) AS up_to
    FROM credits_hold h
    WHERE h.status = 'open' AND h.amount > 0
      AND NOT EXISTS (SELECT FROM credits_holdlot s JOIN credits_lot l ON l.id = s.lot_id WHERE l.account_id = h.account_id)
), queued AS (
    SELECT l.id, l.account_id, l.remaining,
           sum(l.remaining) OVER (PARTITION BY l.account_id ORDER BY l.category = 'paid', l.id) AS up_to
    FROM credits_lot l WHERE l.remaining > 0
), standing AS (
    INSERT INTO credits_holdlot (hold_id, lot_id, amount)
    SELECT a.id, q.id, least(a.up_to, q.up_to) - greatest(a.up_to - a.amount, q.up_to - q.remaining)
    FROM asked a JOIN queued q ON q.account_id = a.account_id
     AND a.up_to - a.amount < q.up_to AND q.up_to - q.remaining < a.up_to
    RETURNING lot_id, amount
)
UPDATE credits_lot l SET reserved = l.reserved + s.amount
FROM (SELECT lot_id, sum(amount) AS amount FROM standing GROUP BY lot_id) s WHERE l.id = s.lot_id;
"""


class Migration(migrations.Migration):
    dependencies = [("credits", "0006_busy_lots")]
    operations = [migrations.RunSQL(FORWARD, migrations.RunSQL.noop)]
