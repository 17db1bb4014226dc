"""The entries of the ledger: one debit, one credit, one amount, so each is balanced by construction."""

import pgtrigger
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from credits.models.accounts import Account
from credits.models.holds import Hold
from credits.models.lots import Lot
from statemachine.triggers import no_truncate

# The sum is read in a later statement than the lock, so the second of two refunds counts the first.
_REVERSAL = """
    SELECT * INTO reversed FROM credits_transfer WHERE id = NEW.reverses_id FOR NO KEY UPDATE;
    IF (reversed.debit_id, reversed.credit_id) IS DISTINCT FROM (NEW.credit_id, NEW.debit_id) THEN
        RAISE EXCEPTION 'a reversal mirrors what it reverses'
        USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_reversal_mirrors';
    END IF;
    SELECT coalesce(sum(amount), 0) INTO so_far FROM credits_transfer WHERE reverses_id = NEW.reverses_id;
    IF so_far + NEW.amount > reversed.amount THEN
        RAISE EXCEPTION 'reversed % of %, % more is too much', so_far, reversed.amount, NEW.amount
        USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_reversal_within_what_is_left';
    END IF;
    RETURN NEW;
"""


class Transfer(models.Model):
    """One entry of the ledger; append-only. `op_key` makes booking it twice impossible."""

    op_key = models.TextField()
    ledger = models.TextField()
    # Their foreign keys span (account, ledger), which Django cannot declare: migration 0002 makes them.
    debit = models.ForeignKey(Account, models.PROTECT, related_name="debits", db_constraint=False, db_index=False)
    credit = models.ForeignKey(Account, models.PROTECT, related_name="credits", db_constraint=False, db_index=False)
    amount = models.BigIntegerField()
    code = models.TextField()
    hold = models.ForeignKey(Hold, models.PROTECT, null=True, blank=True, db_index=False, related_name="transfers")
    lot = models.ForeignKey(Lot, models.PROTECT, null=True, blank=True, db_index=False, related_name="transfers")
    reverses = models.ForeignKey(
        "self", models.PROTECT, null=True, blank=True, db_index=False, related_name="reversals"
    )
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        # A wallet's entries are read newest first, page by page.
        indexes = [
            models.Index(fields=["debit", "id"], name="transfer_debit"),
            models.Index(fields=["credit", "id"], name="transfer_credit"),
            # Most entries are settlements, which have neither.
            models.Index(fields=["lot"], condition=Q(lot__isnull=False), name="transfer_lot"),
            models.Index(fields=["reverses"], condition=Q(reverses__isnull=False), name="transfer_reverses"),
        ]
        constraints = [
            # Not unique=True, which would add a second index for LIKE.
            models.UniqueConstraint(fields=["op_key"], name="transfer_op_key"),
            models.CheckConstraint(condition=Q(amount__gt=0), name="transfer_amount_positive"),
            models.CheckConstraint(condition=~Q(debit=F("credit")), name="transfer_between_two_accounts"),
            models.CheckConstraint(
                condition=Q(code="refund", reverses__isnull=False) | (~Q(code="refund") & Q(reverses__isnull=True)),
                name="transfer_refund_reverses",
            ),
        ]
        triggers = [
            pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete),
            no_truncate(),
            pgtrigger.Trigger(
                name="reversal_within_what_is_left",
                when=pgtrigger.Before,
                operation=pgtrigger.Insert,
                condition=pgtrigger.Q(new__reverses__isnull=False),
                declare=[("reversed", "credits_transfer"), ("so_far", "bigint")],
                func=_REVERSAL,
            ),
        ]

    def __str__(self) -> str:
        return self.op_key
