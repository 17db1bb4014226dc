"""What an audit of less than all asks of the ledger: its rows that were touched, and which rule reads which of them.

An audit fills the temporary tables `touched_…`, then asks each rule over them: a table that the rule names is shadowed by
a CTE of the same name. What no transfer, move or new id shows was touched is not in them; the whole audit asks that.
"""

from statemachine.touched import Figure, Scope, Source, Table

# Sums kept by the checkpoint, as of its last final transfer, stand for all the entries and charges before it.
MARK = "(SELECT figure FROM remembered WHERE name = 'credits_transfer')"
SUMS = f"""
    SELECT 0::bigint AS id, NULL::bigint AS debit_id, subject_id AS credit_id, figure AS amount
    FROM remembered WHERE name = 'posted'
    UNION ALL SELECT id, debit_id, credit_id, amount FROM touched_transfer WHERE id > {MARK}
"""
CAPTURED = f"""
    SELECT NULL::bigint AS hold_id, subject_id AS lot_id, figure AS captured FROM remembered WHERE name = 'captured'
    UNION ALL SELECT hold_id, lot_id, captured FROM touched_holdlot
    WHERE hold_id IN (SELECT hold_id FROM touched_transfer WHERE code = 'settle' AND id > {MARK})
"""
# What was charged in the day and the month of a wallet's last charge, up to the mark: as charges at their beginnings. The
# wallet stands for the holds that were charged.
CHARGES = f"""
    SELECT 0::bigint AS id, -c.subject_id AS hold_id, 'tenant' AS ledger, 'settle' AS code, c.figure AS amount,
           CASE c.name WHEN 'charged_in_day' THEN d.day ELSE date_trunc('month', d.day) END AT TIME ZONE 'UTC' AS created_at
    FROM remembered c
    JOIN (SELECT subject_id, timestamp 'epoch' + figure * interval '1 day' AS day
          FROM remembered WHERE name = 'charged_on') d USING (subject_id)
    WHERE c.name IN ('charged_in_day', 'charged_before_day')
    UNION ALL SELECT id, hold_id, ledger, code, amount, created_at FROM touched_transfer WHERE id > {MARK}
"""
CHARGED_HOLDS = """
    SELECT id, account_id FROM touched_hold
    UNION ALL SELECT -subject_id, subject_id FROM remembered WHERE name = 'charged_on'
"""
CHARGED = """
    SELECT b.account_id AS subject_id, sum(t.amount) AS figure
    FROM credits_transfer t JOIN credits_hold h ON h.id = t.hold_id JOIN credits_balance b ON b.account_id = h.account_id
    WHERE t.ledger = 'tenant' AND t.code IN ('settle', 'overrun_debt') AND t.id <= {credits_transfer}
      AND t.created_at >= date_trunc('month', b.charged_on::timestamp) AT TIME ZONE 'UTC'
      AND (t.created_at >= b.charged_on::timestamp AT TIME ZONE 'UTC') = %s
    GROUP BY b.account_id
"""
TRANSFER = "SELECT t.* FROM credits_transfer t"

TABLES = {
    "touched_account": Table("SELECT * FROM credits_account"),
    "touched_transfer": Table("SELECT * FROM credits_transfer"),
    "touched_hold": Table("SELECT * FROM credits_hold"),
    "touched_holdlot": Table("SELECT * FROM credits_holdlot", key="hold_id, lot_id"),
    "touched_lot": Table("SELECT * FROM credits_lot"),
}
# A release books no entry: its hold is found by its job, and so is every open hold, as a rule says that its job has not
# ended. A lot that is not spent is always asked.
SINCE = [
    Source("touched_account", "SELECT * FROM credits_account"),
    Source("touched_transfer", "SELECT * FROM credits_transfer WHERE id > %(credits_transfer)s"),
    Source("touched_job_id", "SELECT job_id FROM credits_hold WHERE id > %(credits_hold)s"),
    Source("touched_lot", "SELECT * FROM credits_lot WHERE NOT spent OR id > %(credits_lot)s"),
]
OF_TENANT = [
    Source("touched_account", "SELECT * FROM credits_account WHERE ledger = 'tenant' AND owner_id = %(tenant)s"),
    Source("touched_transfer", f"{TRANSFER} WHERE t.debit_id IN (SELECT id FROM touched_account)"),
    Source("touched_transfer", f"{TRANSFER} WHERE t.credit_id IN (SELECT id FROM touched_account)"),
    Source("touched_lot", "SELECT l.* FROM credits_lot l WHERE l.account_id IN (SELECT id FROM touched_account)"),
]
# What belongs to the touched rows above. `hold_id` of an entry has no index: a closing's entries are found by their key.
# In this order: the last ones, of lots, bring refunds of holds that were not touched.
BELONGING = [
    Source("touched_transfer", f"{TRANSFER} WHERE t.id IN (SELECT reverses_id FROM touched_transfer)"),
    Source("touched_transfer", f"{TRANSFER} WHERE t.reverses_id IN (SELECT reverses_id FROM touched_transfer)"),
    Source(
        "touched_job_id", "SELECT h.job_id FROM credits_hold h WHERE h.id IN (SELECT hold_id FROM touched_transfer)"
    ),
    Source("touched_hold", "SELECT h.* FROM credits_hold h WHERE h.job_id IN (SELECT job_id FROM touched_job_id)"),
    Source("touched_holdlot", "SELECT s.* FROM credits_holdlot s WHERE s.hold_id IN (SELECT id FROM touched_hold)"),
    Source("touched_lot", "SELECT l.* FROM credits_lot l WHERE l.id IN (SELECT lot_id FROM touched_holdlot)"),
    Source("touched_lot", "SELECT l.* FROM credits_lot l WHERE l.id IN (SELECT lot_id FROM touched_transfer)"),
    Source("touched_transfer", f"{TRANSFER} WHERE t.op_key IN (SELECT 'settle:' || id FROM touched_hold)"),
    Source("touched_transfer", f"{TRANSFER} WHERE t.op_key IN (SELECT 'overrun:' || id FROM touched_hold)"),
    Source(
        "touched_transfer", f"{TRANSFER} WHERE t.op_key IN (SELECT 'late:' || job_id || ':' || run FROM touched_hold)"
    ),
    Source("touched_transfer", f"{TRANSFER} WHERE t.op_key IN (SELECT source_key FROM touched_lot)"),
    Source("touched_transfer", f"{TRANSFER} WHERE t.lot_id IN (SELECT id FROM touched_lot)"),
]

ACCOUNTS = {"credits_account": "SELECT * FROM touched_account"}
BALANCES = {"credits_balance": "SELECT * FROM credits_balance WHERE account_id IN (SELECT id FROM touched_account)"}
TRANSFERS = {"credits_transfer": "SELECT * FROM touched_transfer"}
HOLDS = {"credits_hold": "SELECT * FROM touched_hold"}
# A job may have holds on accounts that are not its tenant's.
HOLDS_OF_ACCOUNTS = {"credits_hold": f"{HOLDS['credits_hold']} WHERE account_id IN (SELECT id FROM touched_account)"}
HOLDLOTS = {"credits_holdlot": "SELECT * FROM touched_holdlot"}
OF_BUDGETS = {"credits_transfer": CHARGES, "credits_hold": CHARGED_HOLDS}
LOTS = {"credits_lot": "SELECT * FROM touched_lot"}

# Rule → what stands for which table. A rule that is not here is asked in full.
SCOPES: dict[str, Scope] = {
    "P5.balance_equals_entries": Scope({"credits_transfer": SUMS} | ACCOUNTS | BALANCES),
    "P5.held_equals_open_holds": Scope(HOLDS_OF_ACCOUNTS | BALANCES),
    "P5.captured_equals_settle_entry": Scope(HOLDS | TRANSFERS),
    "P5.overrun_equals_entry": Scope(HOLDS | TRANSFERS),
    "P5.one_settle_per_hold": Scope(TRANSFERS),
    "P5.settle_charges_the_holder": Scope(HOLDS | TRANSFERS),
    "P5.one_tenant_hold_per_run": Scope(HOLDS),
    "P5.floor_respected": Scope(BALANCES),
    "P5.ledgers_sum_to_zero": Scope({"credits_transfer": SUMS}, of_tenant=False),
    "P5.open_holds_are_reviewed": Scope(HOLDS),
    "P5.late_completion_is_of_a_released_hold": Scope(HOLDS | TRANSFERS),
    "P5.one_late_completion_per_hold": Scope(TRANSFERS),
    "P5.lot_reserved_equals_open_holds": Scope(LOTS | HOLDS | HOLDLOTS),
    "P5.lot_equals_its_entry": Scope(LOTS | TRANSFERS),
    "P5.posted_is_backed_by_lots": Scope(BALANCES | LOTS),
    "P5.debt_has_no_free_lot": Scope(BALANCES | LOTS),
    "P5.credit_used_within_the_floor": Scope(BALANCES | LOTS),
    "P5.lot_parts_within_its_amount": Scope({"credits_holdlot": CAPTURED} | LOTS | TRANSFERS),
    "P5.hold_is_charged_to_its_lots": Scope(HOLDS | HOLDLOTS),
    "P5.owed_equals_entries": Scope({"credits_transfer": SUMS} | ACCOUNTS | BALANCES),
    "P5.budgets_count_every_charge": Scope(OF_BUDGETS),
    "P5.refunds_within_the_charge": Scope(TRANSFERS),
}

# What a checkpoint remembers, as of its last final transfer. Spent lots are charged no more.
FIGURES = {
    "posted": Figure(
        """
        SELECT account_id AS subject_id, sum(amount) AS figure
        FROM (SELECT id, credit_id AS account_id, amount FROM credits_transfer
              UNION ALL SELECT id, debit_id, -amount FROM credits_transfer) entries
        WHERE id <= {credits_transfer} AND account_id IS NOT NULL GROUP BY account_id
        """,
        Scope({"credits_transfer": SUMS}),
    ),
    "captured": Figure(
        """
        SELECT s.lot_id AS subject_id, sum(s.captured) AS figure
        FROM credits_holdlot s JOIN credits_lot l ON l.id = s.lot_id AND NOT l.spent
        WHERE s.captured > 0 AND NOT EXISTS (
            SELECT FROM credits_transfer t
            WHERE t.hold_id = s.hold_id AND t.code = 'settle' AND t.id > {credits_transfer})
        GROUP BY s.lot_id
        """,
        Scope({"credits_holdlot": CAPTURED} | LOTS | TRANSFERS),
    ),
    "charged_on": Figure(
        "SELECT account_id AS subject_id, charged_on - date '1970-01-01' AS figure FROM credits_balance"
        " WHERE charged_on IS NOT NULL",
        Scope(BALANCES),
    ),
    "charged_in_day": Figure(CHARGED % "true", Scope(OF_BUDGETS)),
    "charged_before_day": Figure(CHARGED % "false", Scope(OF_BUDGETS)),
}
