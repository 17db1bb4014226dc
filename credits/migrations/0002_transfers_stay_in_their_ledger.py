"""Both accounts of a transfer belong to its ledger: foreign keys on (account, ledger), which Django cannot declare."""

from django.db import migrations

FORWARD = """
ALTER TABLE credits_transfer
    ADD CONSTRAINT transfer_debit_ledger FOREIGN KEY (debit_id, ledger) REFERENCES credits_account (id, ledger),
    ADD CONSTRAINT transfer_credit_ledger FOREIGN KEY (credit_id, ledger) REFERENCES credits_account (id, ledger)
"""
BACKWARD = """
ALTER TABLE credits_transfer DROP CONSTRAINT transfer_debit_ledger, DROP CONSTRAINT transfer_credit_ledger
"""


class Migration(migrations.Migration):
    dependencies = [("credits", "0001_initial")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
