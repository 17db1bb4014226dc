"""What is written down twice must say the same: models and migrations, state tables and their drawing."""

import pytest
from django.core.management import call_command


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)


def test_the_drawing_shows_the_states_as_they_are() -> None:
    call_command("drawings", check=True)
