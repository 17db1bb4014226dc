"""Backups of the database in one file, and putting one back."""
