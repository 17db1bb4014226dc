"""What must always hold of the ledger, as SQL. Every row a rule returns is a breach: (subject, found, expected)."""

# Each wallet with the sum of its lots.
WALLETS = """
    SELECT b.account_id, b.posted, b.held, b.hard_floor, coalesce(l.remaining, 0) AS remaining,
           coalesce(l.reserved, 0) AS reserved
    FROM credits_balance b
    JOIN credits_account a ON a.id = b.account_id AND a.kind = 'wallet'
    LEFT JOIN (SELECT account_id, sum(remaining) AS remaining, sum(reserved) AS reserved
               FROM credits_lot WHERE NOT spent GROUP BY account_id) l ON l.account_id = b.account_id
"""

# P5, "money is conserved": what is kept (balances, captured amounts) must equal what the entries and holds say.
RULES: dict[str, str] = {
    "P5.balance_equals_entries": """
        SELECT 'account ' || a.id AS subject, b.posted AS found, coalesce(e.posted, 0) AS expected
        FROM credits_account a
        LEFT JOIN credits_balance b ON b.account_id = a.id
        LEFT JOIN (SELECT account_id, sum(amount) AS posted
                   FROM (SELECT credit_id AS account_id, amount FROM credits_transfer
                         UNION ALL SELECT debit_id, -amount FROM credits_transfer) entries
                   GROUP BY account_id) e ON e.account_id = a.id
        WHERE (a.kind = 'wallet' OR b.account_id IS NOT NULL) AND b.posted IS DISTINCT FROM coalesce(e.posted, 0)
    """,
    "P5.held_equals_open_holds": """
        SELECT 'account ' || coalesce(b.account_id, h.account_id) AS subject, b.held AS found,
               coalesce(h.held, 0) AS expected
        FROM credits_balance b
        FULL JOIN (SELECT account_id, sum(amount) AS held FROM credits_hold WHERE status = 'open' GROUP BY account_id) h
             ON h.account_id = b.account_id
        WHERE b.held IS DISTINCT FROM coalesce(h.held, 0)
    """,
    "P5.captured_equals_settle_entry": """
        SELECT 'hold ' || h.id AS subject, coalesce(h.captured, 0) AS found, coalesce(t.amount, 0) AS expected
        FROM credits_hold h
        LEFT JOIN (SELECT hold_id, sum(amount) AS amount FROM credits_transfer WHERE code = 'settle' GROUP BY hold_id) t
             ON t.hold_id = h.id
        WHERE coalesce(h.captured, 0) <> coalesce(t.amount, 0)
    """,
    "P5.overrun_equals_entry": """
        SELECT 'hold ' || h.id AS subject, h.overrun AS found, coalesce(t.amount, 0) AS expected
        FROM credits_hold h
        LEFT JOIN (SELECT hold_id, sum(amount) AS amount FROM credits_transfer
                   WHERE code IN ('overrun_absorb', 'overrun_debt', 'overrun_spent') GROUP BY hold_id) t ON t.hold_id = h.id
        WHERE h.overrun <> coalesce(t.amount, 0)
    """,
    "P5.one_settle_per_hold": """
        SELECT 'hold ' || hold_id AS subject, count(*) AS found, 1 AS expected
        FROM credits_transfer WHERE code = 'settle' GROUP BY hold_id HAVING count(*) > 1
    """,
    "P5.settle_charges_the_holder": """
        SELECT 'transfer ' || t.id AS subject, t.debit_id AS found, h.account_id AS expected
        FROM credits_transfer t LEFT JOIN credits_hold h ON h.id = t.hold_id
        WHERE t.code = 'settle' AND t.debit_id IS DISTINCT FROM h.account_id
    """,
    "P5.one_tenant_hold_per_run": """
        SELECT 'job ' || job_id || ' run ' || run AS subject, count(*) AS found, 1 AS expected
        FROM credits_hold WHERE attempt = 0 GROUP BY job_id, run HAVING count(*) > 1
    """,
    "P5.floor_respected": """
        SELECT 'account ' || account_id AS subject, posted - held AS found, hard_floor AS expected
        FROM credits_balance WHERE posted - held < hard_floor
    """,
    # Grouped by the account's own ledger, not the transfer's: an entry that crosses ledgers shows in both.
    "P5.ledgers_sum_to_zero": """
        SELECT 'ledger ' || a.ledger AS subject, sum(e.amount) AS found, 0 AS expected
        FROM (SELECT credit_id AS account_id, amount FROM credits_transfer
              UNION ALL SELECT debit_id, -amount FROM credits_transfer) e
        JOIN credits_account a ON a.id = e.account_id
        GROUP BY a.ledger HAVING sum(e.amount) <> 0
    """,
    "P5.open_holds_are_reviewed": """
        SELECT 'hold ' || h.id AS subject, CASE WHEN r.hold_id IS NULL THEN 'never reviewed, due ' ELSE 'due ' END
               || coalesce(r.due_at, h.review_at) AS found, 'reviewed within an hour' AS expected
        FROM credits_hold h LEFT JOIN credits_holdreview r ON r.hold_id = h.id
        WHERE h.status = 'open' AND h.attempt = 0
          AND coalesce(r.due_at, h.review_at) < statement_timestamp() - interval '1 hour'
    """,
    "P5.late_completion_is_of_a_released_hold": """
        SELECT 'transfer ' || t.id AS subject, coalesce(h.status || ' ' || h.amount, 'no hold') || ' from ' || d.kind
               || ' to ' || c.kind AS found, 'released, at least ' || t.amount || ' from loss to revenue' AS expected
        FROM credits_transfer t
        JOIN credits_account d ON d.id = t.debit_id JOIN credits_account c ON c.id = t.credit_id
        LEFT JOIN credits_hold h ON h.id = t.hold_id
        WHERE t.code = 'late_completion'
          AND (h.status, d.kind, c.kind, t.amount <= h.amount) IS DISTINCT FROM ('released', 'loss', 'revenue', true)
    """,
    "P5.one_late_completion_per_hold": """
        SELECT 'hold ' || hold_id AS subject, count(*) AS found, 1 AS expected
        FROM credits_transfer WHERE code = 'late_completion' GROUP BY hold_id HAVING count(*) > 1
    """,
    "P5.lot_reserved_equals_open_holds": """
        SELECT 'lot ' || l.id AS subject, l.reserved AS found, coalesce(h.reserved, 0) AS expected
        FROM credits_lot l
        LEFT JOIN (SELECT s.lot_id, sum(s.amount) AS reserved FROM credits_holdlot s
                   JOIN credits_hold h ON h.id = s.hold_id WHERE h.status = 'open' GROUP BY s.lot_id) h ON h.lot_id = l.id
        WHERE l.reserved <> coalesce(h.reserved, 0)
    """,
    "P5.lot_equals_its_entry": """
        SELECT coalesce('lot ' || l.id, 'transfer ' || t.id) AS subject, l.amount AS found, t.amount AS expected
        FROM credits_lot l
        FULL JOIN (SELECT t.id, t.lot_id, t.credit_id, t.amount, t.op_key
                   FROM credits_transfer t JOIN credits_account a ON a.id = t.credit_id WHERE a.kind = 'wallet') t
             ON t.lot_id = l.id AND t.credit_id = l.account_id AND t.op_key = l.source_key
        WHERE l.amount IS DISTINCT FROM t.amount
    """,
    "P5.posted_is_backed_by_lots": f"""
        SELECT 'account ' || account_id AS subject, posted AS found, remaining AS expected
        FROM ({WALLETS}) w WHERE posted > remaining
    """,
    "P5.debt_has_no_free_lot": f"""
        SELECT 'account ' || account_id AS subject, remaining - reserved AS found, 0 AS expected
        FROM ({WALLETS}) w WHERE remaining > posted AND remaining > reserved
    """,
    # What is used on credit (lots beyond what is posted) and what is held on credit (holds beyond the lots).
    "P5.credit_used_within_the_floor": f"""
        SELECT 'account ' || account_id AS subject, remaining - posted + held - reserved AS found, -hard_floor AS expected
        FROM ({WALLETS}) w WHERE remaining - posted + held - reserved > -hard_floor
    """,
    "P5.lot_parts_within_its_amount": """
        SELECT 'lot ' || l.id AS subject, l.remaining + coalesce(h.captured, 0) + coalesce(t.expired, 0) AS found,
               l.amount AS expected
        FROM credits_lot l
        LEFT JOIN (SELECT lot_id, sum(captured) AS captured FROM credits_holdlot GROUP BY lot_id) h ON h.lot_id = l.id
        LEFT JOIN (SELECT lot_id, sum(amount) AS expired FROM credits_transfer
                   WHERE lot_id IS NOT NULL AND code = 'expire' GROUP BY lot_id) t ON t.lot_id = l.id
        WHERE l.remaining + coalesce(h.captured, 0) + coalesce(t.expired, 0) > l.amount
    """,
    # A hold may stand on less than it is (the rest is on credit), never on more, and its lots pay before the credit does.
    "P5.hold_is_charged_to_its_lots": """
        SELECT 'hold ' || h.id AS subject, s.captured AS found,
               CASE h.status WHEN 'open' THEN NULL ELSE least(coalesce(h.captured, 0), s.amount) END AS expected
        FROM credits_hold h
        JOIN (SELECT hold_id, sum(amount) AS amount, sum(captured) AS captured, count(*) - count(captured) AS unresolved
              FROM credits_holdlot GROUP BY hold_id) s ON s.hold_id = h.id
        WHERE s.amount > h.amount OR (h.status <> 'open' AND s.unresolved > 0)
           OR s.captured IS DISTINCT FROM CASE h.status WHEN 'open' THEN NULL
                                          ELSE least(coalesce(h.captured, 0), s.amount) END
    """,
    "P5.owed_equals_entries": """
        SELECT 'account ' || b.account_id AS subject, b.owed AS found, coalesce(e.owed, 0) AS expected
        FROM credits_balance b JOIN credits_account w ON w.id = b.account_id
        LEFT JOIN (SELECT r.owner_id, sum(t.amount) AS owed
                   FROM (SELECT debit_id AS account_id, amount FROM credits_transfer
                         UNION ALL SELECT credit_id, -amount FROM credits_transfer) t
                   JOIN credits_account r ON r.id = t.account_id AND r.kind = 'receivable'
                   GROUP BY r.owner_id) e ON w.kind = 'wallet' AND e.owner_id = w.owner_id
        WHERE b.owed <> coalesce(e.owed, 0)
    """,
    # At least: what is charged while a day begins is counted to the new one. Less would let a budget be passed.
    "P5.budgets_count_every_charge": """
        SELECT 'account ' || account_id AS subject, day_charged || ' and ' || month_charged AS found,
               in_day || ' and ' || in_month AS expected
        FROM (SELECT b.account_id, b.day_charged, b.month_charged, sum(t.amount) AS in_month,
                     coalesce(sum(t.amount) FILTER (WHERE t.created_at >= b.charged_on::timestamp AT TIME ZONE 'UTC'), 0)
                         AS in_day
              FROM credits_transfer t JOIN credits_hold h ON h.id = t.hold_id
              JOIN credits_balance b ON b.account_id = h.account_id
              WHERE t.ledger = 'tenant' AND t.code IN ('settle', 'overrun_debt')
                AND t.created_at >= date_trunc('month', b.charged_on::timestamp) AT TIME ZONE 'UTC'
              GROUP BY b.account_id) charged
        WHERE day_charged < in_day OR month_charged < in_month
    """,
    "P5.refunds_within_the_charge": """
        SELECT 'transfer ' || t.id AS subject, r.amount AS found, t.amount AS expected
        FROM credits_transfer t
        JOIN (SELECT reverses_id, sum(amount) AS amount FROM credits_transfer
              WHERE reverses_id IS NOT NULL GROUP BY reverses_id) r ON r.reverses_id = t.id
        WHERE r.amount > t.amount
    """,
}
