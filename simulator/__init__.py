"""A strict fake provider: a process with its own book, which imports nothing of the broker it judges."""
