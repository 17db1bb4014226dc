"""Find the newest reading of an account; built without stopping the writers."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("credits", "0010_holds_are_reviewed")]
    operations = [
        AddIndexConcurrently("reading", models.Index(fields=["account", "-id"], name="reading_newest")),
    ]
