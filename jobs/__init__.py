"""Jobs and their attempts: what can happen, what happens next, what it means."""
