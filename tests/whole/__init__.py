"""All of Berth in real processes, with real upstreams: what a user would see."""
