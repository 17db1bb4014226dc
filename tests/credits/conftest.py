"""Wallets to test with."""

import itertools
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from django.db import connection

from credits import ledger
from credits.ledger import HoldRequest
from credits.models import Lot

TENANT_IDS = itertools.count(1)


@pytest.fixture
def open_tenant() -> Callable[..., int]:
    """Makes a tenant with a wallet and this opening grant."""

    def open_(granted: int = 0, credit_limit: int = 0) -> int:
        tenant_id = next(TENANT_IDS)
        ledger.open_wallet(tenant_id, credit_limit)
        if granted:
            ledger.grant(tenant_id, granted, f"opening:{tenant_id}")
        return tenant_id

    return open_


def hold_one(tenant_id: int, amount: int, job_id: UUID | None = None, run: int = 0) -> UUID:
    job_id = job_id or uuid4()
    ledger.hold(tenant_id, [HoldRequest(job_id, run, amount)], review_seconds=3600)
    return job_id


def money(tenant_id: int) -> tuple[int, int]:
    """(posted, held)"""
    balance = ledger.balances(tenant_id)
    return balance.posted, balance.held


def let_expire(source: str) -> None:
    """As if the lot's time had come: its expiry is moved into the past."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE credits_lot SET expires_at = clock_timestamp() - interval '1 second' WHERE source_key = %s",
            [f"grant:{source}"],
        )
        assert cursor.rowcount == 1


def lots(tenant_id: int) -> list[tuple[str, int, int]]:
    """(source, remaining, reserved) of the wallet's lots that have credits left, oldest first."""
    found = Lot.objects.filter(account__owner_id=tenant_id, spent=False).order_by("id")
    return [(lot.source_key.split(":", 1)[1], lot.remaining, lot.reserved) for lot in found]
