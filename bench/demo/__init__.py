"""The demo: a spike of jobs from many tenants through a small pool, over HTTP, in real processes, then a report."""
