"""The rows of the table, by what goes wrong."""
