"""Questions about jobs, and the SQL of the hot paths, by theme."""
