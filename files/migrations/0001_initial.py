"""Files of tenants, what refers to them, and how many bytes each tenant keeps."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('tenants', '0004_file_bytes'),
    ]

    operations = [
        migrations.CreateModel(
            name='File',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('input', 'input: sent by the tenant'), ('result', 'result: made by an upstream')], max_length=10)),
                ('name', models.CharField(blank=True, max_length=255)),
                ('content_type', models.CharField(max_length=255)),
                ('size', models.BigIntegerField()),
                ('sha256', models.CharField(blank=True, max_length=64)),
                ('place', models.CharField(help_text='Its name in the storage.', max_length=100, unique=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('expires_at', models.DateTimeField(help_text='Not before; later while a job that has not ended refers to it.')),
                ('stored_at', models.DateTimeField(help_text='When its last byte was written; empty: it arrives.', null=True)),
                ('leaving_at', models.DateTimeField(help_text='From when on it may not be used; its bytes are deleted.', null=True)),
                ('gone_at', models.DateTimeField(help_text='When its bytes were deleted.', null=True)),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='files', to='tenants.tenant')),
            ],
        ),
        migrations.CreateModel(
            name='Reference',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('job_id', models.UUIDField(db_index=True)),
                ('file', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='references', to='files.file')),
            ],
        ),
        migrations.CreateModel(
            name='Usage',
            fields=[
                ('tenant', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='+', serialize=False, to='tenants.tenant')),
                ('input_bytes', models.BigIntegerField(default=0)),
                ('result_bytes', models.BigIntegerField(default=0)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('input_bytes__gte', 0), ('result_bytes__gte', 0)), name='usage_not_negative')],
            },
        ),
        migrations.AddIndex(
            model_name='file',
            index=models.Index(fields=['tenant', '-id'], name='file_by_tenant'),
        ),
        migrations.AddIndex(
            model_name='file',
            index=models.Index(condition=models.Q(('leaving_at__isnull', True)), fields=['expires_at', 'id'], name='file_expiring'),
        ),
        migrations.AddIndex(
            model_name='file',
            index=models.Index(condition=models.Q(('gone_at__isnull', True), ('leaving_at__isnull', False)), fields=['leaving_at', 'id'], name='file_leaving'),
        ),
        migrations.AddIndex(
            model_name='file',
            index=models.Index(condition=models.Q(('gone_at__isnull', False)), fields=['gone_at'], name='file_gone'),
        ),
        migrations.AddConstraint(
            model_name='file',
            constraint=models.CheckConstraint(condition=models.Q(('size__gte', 0)), name='file_size_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='file',
            constraint=models.CheckConstraint(condition=models.Q(('stored_at__isnull', True), models.Q(('sha256', ''), _negated=True), _connector='OR'), name='file_stored_has_digest'),
        ),
        migrations.AddConstraint(
            model_name='file',
            constraint=models.CheckConstraint(condition=models.Q(('gone_at__isnull', True), ('leaving_at__isnull', False), _connector='OR'), name='file_gone_has_left'),
        ),
        migrations.AddConstraint(
            model_name='reference',
            constraint=models.UniqueConstraint(fields=('file', 'job_id'), name='one_reference_per_file_and_job'),
        ),
    ]
