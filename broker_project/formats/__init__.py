"""How the pages write times: in UTC, the year first, to the second."""
