"""What the pages call the rows; nothing in the database changes."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0004_find_dead_letters_and_references'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='jobmove',
            options={'verbose_name': 'move of a job', 'verbose_name_plural': 'moves of jobs'},
        ),
    ]
