"""What the model's test asks of the database that stands beside it, and when a walk may take which step."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction

from tests.db import rows


@contextmanager
def refused(error: type[Exception]) -> Iterator[pytest.ExceptionInfo[Any]]:
    with pytest.raises(error) as refusal, transaction.atomic():
        yield refusal


def found_lots(tenant: int) -> list[tuple[Any, ...]]:
    return rows(
        "SELECT l.source_key, l.remaining, l.reserved FROM credits_lot l JOIN credits_account a ON a.id = l.account_id"
        " WHERE a.owner_id = %s AND a.kind = 'wallet' ORDER BY l.id",
        [tenant],
    )


def some_were_held(walk: Any) -> bool:
    return bool(getattr(walk, "runs", None))


def some_may_expire(walk: Any) -> bool:
    return any(lot.free and (lot.hours or 0) > 0 for wallet in getattr(walk, "wallets", []) for lot in wallet.lots)


def some_are_due(walk: Any) -> bool:
    return any(lot.is_due and lot.remaining for wallet in getattr(walk, "wallets", []) for lot in wallet.lots)


def some_owe(walk: Any) -> bool:
    return any(wallet.owed for wallet in getattr(walk, "wallets", []))


def some_were_charged(walk: Any) -> bool:
    return any(wallet.left_to_refund for wallet in getattr(walk, "wallets", []))
