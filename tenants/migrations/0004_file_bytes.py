"""How many bytes the inputs of a tenant may have together."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0003_budgets'),
    ]

    operations = [
        migrations.AddField(
            model_name='tenant',
            name='max_file_bytes',
            field=models.BigIntegerField(blank=True, help_text='Of its inputs together. Empty: TENANT_FILE_BYTES of the settings.', null=True),
        ),
        migrations.AddConstraint(
            model_name='tenant',
            constraint=models.CheckConstraint(condition=models.Q(('max_file_bytes__isnull', True), ('max_file_bytes__gte', 0), _connector='OR'), name='tenant_max_file_bytes_not_negative'),
        ),
    ]
