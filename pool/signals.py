"""What is announced after a commit: sessions that moved (`moved`: list of statemachine.machine.Moved, `verb`)."""

from django.dispatch import Signal

resource_moved = Signal()
