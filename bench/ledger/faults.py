"""The faults that `bench.ledger.mutants` sows: file → what is wrong with it then, the text, and what takes its place."""

BEFORE = "credits/migrations/functions_0005"
FUNCTIONS = "credits/migrations/functions_0009"
LINE = "jobs/migrations/functions_0011"

FAULTS: dict[str, list[tuple[str, str, str]]] = {
    f"{FUNCTIONS}/place_holds.sql": [
        ("expired credits can be held", "IF first.due THEN", "IF false THEN"),
        ("what expires is not counted against the hold", "IF left_over < (SELECT", "IF 0 > (SELECT"),
        (
            "a tenant with a budget is never asked for it",
            "OR credits_why_refused(",
            "OR true OR credits_why_refused(",
        ),
        ("the tenant is told with every hold that little is left", "AND (b.low_since IS NULL OR", "AND (true OR"),
        ("a pace is kept by nobody", "THEN clock_timestamp() + pause_ms *", "THEN clock_timestamp() + 0 *"),
        (
            "the budgets of all tenants are not asked",
            "refused := credits_ceiling_refuses((statement_timestamp() AT TIME ZONE 'UTC')::date);",
            "refused := NULL;",
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
            """UPDATE credits_balance b SET held = b.held - needed WHERE b.account_id = wallet;
            refused := 'credits';""",
            "refused := 'credits';",
        ),
    ],
    f"{FUNCTIONS}/why_refused.sql": [
        ("admission forgets what is held", "b.posted - b.held - b.owed + least", "b.posted - b.owed + least"),
        ("admission forgets the floor", "+ least(b.credit_limit, -b.hard_floor)", "+ b.credit_limit"),
        ("what is owed may be held again", "- b.held - b.owed +", "- b.held +"),
        (
            "a budget of the day forgets what is held",
            "WHEN b.held + needed + CASE WHEN b.charged_on >= today",
            "WHEN needed + CASE WHEN b.charged_on >= today",
        ),
        (
            "a budget of the day never begins anew",
            "CASE WHEN b.charged_on >= today THEN b.day_charged ELSE 0 END > day_budget",
            "b.day_charged > day_budget",
        ),
        ("a budget of the month counts the day", "THEN b.month_charged ELSE 0 END", "THEN b.day_charged ELSE 0 END"),
    ],
    f"{FUNCTIONS}/ceiling_used.sql": [
        (
            "two tenants at once pass the budget of all",
            "SELECT * INTO ceiling FROM credits_ceiling FOR NO KEY UPDATE;",
            "SELECT * INTO ceiling FROM credits_ceiling;",
        ),
        ("the budget of all counts upstream accounts", " AND a.kind = 'wallet'", ""),
    ],
    f"{FUNCTIONS}/upstream_accounts.sql": [
        ("an account pays what it has not", "AND (n.amount = 0 OR b.posted - b.held >= n.amount)", ""),
        (
            "what an attempt took beyond its hold is lost",
            "overrun = greatest(c.spent - h.amount, 0)",
            "overrun = 0",
        ),
        (
            "an attempt is charged twice to its account",
            "WHERE h.id = c.id AND h.status = 'open'",
            "WHERE h.id = c.id",
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
    f"{BEFORE}/cover_debt.sql": [
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
    f"{BEFORE}/expire_lots.sql": [
        ("the expiry takes what is reserved", "l.remaining - l.reserved AS free\n", "l.remaining AS free\n"),
        ("the expiry leaves the lot as it is", "SET remaining = l.remaining - due.free", "SET remaining = l.remaining"),
        (
            "a lot can expire only once",
            "WHERE t.lot_id = due.id AND t.code = 'expire'",
            "WHERE t.lot_id = due.id AND t.code = 'never'",
        ),
    ],
    f"{BEFORE}/expire_due.sql": [
        ("a sweep waits for busy wallets", "FOR NO KEY UPDATE SKIP LOCKED", "FOR NO KEY UPDATE"),
    ],
    f"{LINE}/enter.sql": [
        ("a refused submit is stored", "IF held.refused IS NOT NULL THEN", "IF false THEN"),
        ("a submit keeps a hold that is not its own", "ELSIF held.placed_runs = 0 THEN", "ELSIF false THEN"),
        ("that little is left is told after the commit", "ELSIF low AND NOT tells THEN", "ELSIF false THEN"),
        ("those who pay nothing are counted without a lock", "FOR NO KEY UPDATE;", ";"),
    ],
    f"{LINE}/give_turns.sql": [
        ("a window counts nobody", "- count(j.id) FILTER (WHERE j.state = 'pending'),", ","),
        ("a cap counts nobody", "t.max_running) - count(j.id), 100)", "t.max_running), 100)"),
        ("whoever gives turns waits for jobs that others hold", "FOR NO KEY UPDATE SKIP LOCKED", "FOR NO KEY UPDATE"),
    ],
    "credits/migrations/0004_lots.py": [
        (
            "refunds are not added up",
            "IF so_far + NEW.amount > reversed.amount THEN",
            "IF NEW.amount > reversed.amount THEN",
        ),
    ],
    "credits/limits.py": [
        ("more may be paid than is owed", "if amount > owed:", "if False:"),
        (
            "the floor may cut what is held on credit",
            "b.posted - b.held - l.free >= %(floor)s",
            "b.posted - b.held >= %(floor)s",
        ),
    ],
    "credits/upstream_accounts.py": [
        ("what attempts in flight used is booked as drift", "min(0, said - (posted - held))", "min(0, said - posted)"),
        ("a reading far off empties an account", "booked=most is None or abs(drift) <= most", "booked=True"),
    ],
    "jobs/queries/affording.py": [
        ("who cannot be paid for stays in line", "SET turn = NULL, unaffordable = true", "SET unaffordable = false"),
    ],
    "jobs/affording.py": [
        (
            "an account that can pay for nothing that waits fills the claim",
            "if not least or left.get(",
            "if True or left.get(",
        ),
        ("an account that cannot pay is chosen", 'if not cost or purse.get(s["account_id"], cost) >= cost', "if True"),
        ("one account pays for two jobs with the same credits", 'purse[found["account_id"]] -= cost', "pass"),
    ],
    "jobs/closing.py": [
        (
            "a failed attempt is charged to no account",
            'if case["verdict"] == NOT_EXECUTED else',
            'if case["verdict"] != "succeeded" else',
        ),
        ("absurd usage is believed", 'if amount > _most(case["price"]):', "if False:"),
        (
            "usage above the hold is never flagged",
            'or case["usage_problem"] or above:',
            'or case["usage_problem"]:',
        ),
    ],
    "credits/reviews.py": [
        (
            "the walk does not wait for who is late",
            "make_interval(secs => %(older)s) AS old\n",
            "interval '0' AS old\n",
        ),
        ("a closed hold is reviewed for ever", "AND s.status <> 'open'", "AND s.status = 'none'"),
    ],
    "jobs/queries/reviews.py": [
        (
            "a hold of an earlier run is left to itself",
            "WHEN j.id IS NULL OR j.state IN {TERMINAL_SQL} OR j.run <> h.run THEN",
            "WHEN j.id IS NULL OR j.state IN {TERMINAL_SQL} THEN",
        ),
        (
            "an operator is asked at once",
            "AND o.opened_at < d.asked THEN '{OUTCOME_UNKNOWN}'",
            "THEN '{OUTCOME_UNKNOWN}'",
        ),
    ],
    "jobs/reviews.py": [
        (
            "an orphan of a completed job is given back",
            'end = "charged" if row["state"] == "completed"',
            'end = "charged" if row["state"] == "never"',
        ),
    ],
    "credits/late.py": [
        (
            "a late completion is booked for a charged run",
            "AND h.attempt = 0 AND h.status = 'released'",
            "AND h.attempt = 0",
        ),
    ],
    "jobs/late.py": [
        ("a late answer of a run that has its success is booked", 'if case["succeeded"]:', "if False:"),
    ],
    "credits/queries.py": [
        (
            "expired credits are shown as available",
            "AND NOT l.spent AND l.expires_at <= clock_timestamp()), 0), b.owed",
            "AND l.spent AND l.expires_at <= clock_timestamp()), 0), b.owed",
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

# Where the tests of a file stand that is not of the credits.
_LINE_TESTS = tuple(f"tests/jobs/test_{name}.py" for name in ("entering", "line", "cap", "races"))
TESTS = {
    f"{LINE}/enter.sql": _LINE_TESTS,
    f"{LINE}/give_turns.sql": _LINE_TESTS,
    "jobs/closing.py": ("tests/jobs/test_usage.py", "tests/jobs/test_affording.py"),
    "credits/reviews.py": ("tests/credits/test_reviews.py", "tests/jobs/test_reviews.py"),
    "jobs/queries/reviews.py": ("tests/jobs/test_reviews.py",),
    "jobs/reviews.py": ("tests/jobs/test_reviews.py",),
    "credits/late.py": ("tests/jobs/test_late.py", "tests/credits"),
    "jobs/late.py": ("tests/jobs/test_late.py",),
    "jobs/queries/affording.py": ("tests/jobs/test_affording.py",),
    "jobs/affording.py": ("tests/jobs/test_affording.py",),
    f"{FUNCTIONS}/upstream_accounts.sql": ("tests/jobs/test_account_balances.py", "tests/jobs/test_affording.py"),
    "credits/upstream_accounts.py": ("tests/jobs/test_account_balances.py", "tests/jobs/test_affording.py"),
}

# Those that nothing can tell apart, and why.
HARMLESS = {
    "a lot is funded before its wallet is locked": (
        "the key's unique index serialises one key, and the update of the balance comes before anything under it is read;"
        " locking first keeps the one lock order, and the ids of entries in the order in which they happened"
    ),
}
