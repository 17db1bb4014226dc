"""Seeds that are kept: those in which something was found once, and those that find the bugs which are sown."""

# Seed → what it found. Each is run again by the tests, and finds nothing any more.
SEEDS = {
    873: "a call that was stopped between its beginning and its sending went out after its lease",
    985: "the same, and the account executed two at once",
}

# The first seed that finds each; where it does not any more, others are tried.
FOUND_BY = {
    "fence removed": 266,
    "session freed at time-out": 14,
    "sweep without state check": 11,
    "publish before commit": 5,
    "flag cleared late": 245,
    "count before lock": 237,
    "max_runtime ignored": 16,
    "sent before commit": 5,
    "sent again": 0,
    "never asked": 3,
    "state not checked": 11,
    "over with the worker": 0,
    "late end overwrites": 107,
    "crashes not counted": 10,
    "self-fencing removed": 21,
    "evidence fenced": 107,
    "cancelled while it runs": 11,
    "released when asked": 23,
    "retry releases": 6,
}
