"""`manage.py doctor`: looks at an installation from outside of its work, and says what to do about what it finds."""
