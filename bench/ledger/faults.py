"""The faults that `bench.ledger.mutants` sows: file → what is wrong with it then, the text, and what takes its place."""

FUNCTIONS = "credits/migrations/functions_0005"

FAULTS: dict[str, list[tuple[str, str, str]]] = {
    f"{FUNCTIONS}/place_holds.sql": [
        ("expired credits can be held", "IF first.due THEN", "IF false THEN"),
        ("what expires is not counted against the hold", "IF left_over < (SELECT", "IF 0 > (SELECT"),
        (
            "admission forgets what is held",
            "b.posted - b.held + least(b.credit_limit, -b.hard_floor) >= needed",
            "b.posted + least(b.credit_limit, -b.hard_floor) >= needed",
        ),
        (
            "admission forgets the floor",
            "b.posted - b.held + least(b.credit_limit, -b.hard_floor) >= needed",
            "b.posted - b.held + b.credit_limit >= needed",
        ),
        (
            "paid credits are used before gifts",
            "TRUE DESC, l.priority, l.expires_at NULLS LAST, l.category = 'paid', l.id LIMIT 1",
            "TRUE DESC, l.priority, l.expires_at NULLS LAST, l.category = 'promo', l.id LIMIT 1",
        ),
        (
            "credits that never expire are used first",
            "ORDER BY l.priority, l.expires_at NULLS LAST, l.category = 'paid', l.id) AS up_to",
            "ORDER BY l.priority, l.expires_at NULLS FIRST, l.category = 'paid', l.id) AS up_to",
        ),
        (
            "a refused hold leaves the balance changed",
            "UPDATE credits_balance b SET held = b.held - needed WHERE b.account_id = wallet;",
            "",
        ),
    ],
    f"{FUNCTIONS}/close_holds.sql": [
        (
            "a partial charge uses up the whole reservation",
            "remaining = l.remaining - p.used",
            "remaining = l.remaining - p.amount",
        ),
        (
            "a partial charge keeps the rest reserved",
            "reserved = l.reserved - p.amount",
            "reserved = l.reserved - p.used",
        ),
        (
            "a partial charge leaves the rest held",
            "SET held = b.held - r.amount",
            "SET held = b.held - coalesce(nullif(r.captured, 0), r.amount)",
        ),
        ("more than the hold is captured", "THEN least(c.actual, h.amount) END", "THEN c.actual END"),
        (
            "a closing looks at holds before it has the lock, and not again",
            "WHERE h.id = c.id AND h.status = 'open'",
            "WHERE h.id = c.id",
        ),
        ("balances are not locked first", "ORDER BY b.account_id FOR NO KEY UPDATE", ""),
        ("what a closing frees pays no debt", "PERFORM credits_cover_debt(on_credit);", "NULL;"),
        ("the debt of one run is taken from nobody's lots", "PERFORM credits_cover_debt(wallets);", "NULL;"),
    ],
    f"{FUNCTIONS}/cover_debt.sql": [
        ("all debts together are taken from each lot", "d.debt - (q.free_up_to - q.free)", "d.debt"),
        ("expired credits pay debt", "PERFORM credits_expire_lots(indebted, clock_timestamp());", ""),
    ],
    f"{FUNCTIONS}/fund_lot.sql": [
        ("a new lot pays no debt", "PERFORM credits_cover_debt(ARRAY[wallet]);", ""),
        (
            "a lot is funded before its wallet is locked",
            "    PERFORM FROM credits_balance b WHERE b.account_id = wallet FOR NO KEY UPDATE;\n",
            "",
        ),
        (
            "a grant sent twice doubles",
            "ON CONFLICT (source_key) DO NOTHING",
            "ON CONFLICT (source_key) DO UPDATE SET remaining = credits_lot.remaining",
        ),
    ],
    f"{FUNCTIONS}/expire_lots.sql": [
        ("the expiry takes what is reserved", "l.remaining - l.reserved AS free\n", "l.remaining AS free\n"),
        ("the expiry leaves the lot as it is", "SET remaining = l.remaining - due.free", "SET remaining = l.remaining"),
        (
            "a lot can expire only once",
            "WHERE t.lot_id = due.id AND t.code = 'expire'",
            "WHERE t.lot_id = due.id AND t.code = 'never'",
        ),
    ],
    f"{FUNCTIONS}/expire_due.sql": [
        ("a sweep waits for busy wallets", "FOR NO KEY UPDATE SKIP LOCKED", "FOR NO KEY UPDATE"),
    ],
    "credits/migrations/0004_lots.py": [
        (
            "refunds are not added up",
            "IF so_far + NEW.amount > reversed.amount THEN",
            "IF NEW.amount > reversed.amount THEN",
        ),
    ],
    "credits/queries.py": [
        (
            "the floor may cut what is held on credit",
            "b.posted - b.held - l.free >= %(floor)s",
            "b.posted - b.held >= %(floor)s",
        ),
        (
            "expired credits are shown as available",
            "AND NOT l.spent AND l.expires_at <= clock_timestamp()), 0)",
            "AND l.spent AND l.expires_at <= clock_timestamp()), 0)",
        ),
        (
            "the key of a grant stands for its amount alone",
            "AND l.priority = %(priority)s AND l.expires_at IS NOT DISTINCT FROM %(expires_at)s::timestamptz",
            "",
        ),
    ],
    "credits/audit.py": [
        (
            "the audit overlooks a lot that nobody funded",
            "FULL JOIN (SELECT t.id, t.lot_id",
            "JOIN (SELECT t.id, t.lot_id",
        ),
        ("the audit overlooks reserved credits", "WHERE l.reserved <> coalesce(h.reserved, 0)", "WHERE false"),
    ],
    "credits/migrations/0007_lots_of_earlier_grants.py": [
        (
            "the upgrade forgets what was used",
            "OVER (PARTITION BY t.credit_id) - b.posted AS used",
            "OVER (PARTITION BY t.credit_id) * 0 AS used",
        ),
    ],
}

# Those that nothing can tell apart, and why.
HARMLESS = {
    "a lot is funded before its wallet is locked": (
        "the key's unique index serialises one key, and the update of the balance comes before anything under it is read;"
        " locking first keeps the one lock order, and the ids of entries in the order in which they happened"
    ),
}
