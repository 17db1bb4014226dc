"""Guarded, announced, recorded moves of rows between states."""
