"""Seeds in which something was found once, and what; each is run again by the tests, and finds nothing any more."""

SEEDS: dict[int, str] = {}
