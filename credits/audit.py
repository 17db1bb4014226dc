"""What must always hold of the ledger, as SQL. Every row a rule returns is a breach: (subject, found, expected)."""

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
                   WHERE code IN ('overrun_absorb', 'overrun_debt') GROUP BY hold_id) t ON t.hold_id = h.id
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
        SELECT 'hold ' || id AS subject, extract(epoch FROM statement_timestamp() - review_at)::bigint AS found,
               3600 AS expected
        FROM credits_hold WHERE status = 'open' AND review_at < statement_timestamp() - interval '1 hour'
    """,
}
