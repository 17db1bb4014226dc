"""Grants that come again: each enabled allowance is booked once in each of its periods, days or months of UTC."""

import logging
from datetime import UTC, datetime, timedelta

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Max

from credits import ledger, queries
from credits.errors import LedgerConflict, NewerAllowance
from credits.models import Allowance, Lot
from credits.values import Category
from statemachine.crashpoints import crashpoint

logger = logging.getLogger(__name__)
BATCH = 1_000  # allowances of one call; what is left is due at the next

# The key of a period's grant. Anchored in the id, so an allowance that was changed is not granted twice.
_DUE = """
SELECT a.id FROM credits_allowance a
WHERE a.enabled AND NOT EXISTS (
    SELECT FROM credits_lot l WHERE l.source_key = 'grant:allowance:' || a.id || ':' || to_char(
        %(now)s::timestamptz AT TIME ZONE 'UTC', CASE a.every WHEN 'day' THEN 'YYYY-MM-DD' ELSE 'YYYY-MM' END))
ORDER BY a.id LIMIT %(limit)s
"""


def grant_allowances(now: datetime | None = None) -> int:
    """Books what is due in the period of `now` (the database's clock), and says how many. For a periodic task.

    Each in a transaction of its own. A second caller waits at the wallet and finds the period booked. A period that
    passed while nobody called is not made up for.
    """
    now = (now or _database_now()).astimezone(UTC)
    due = [row[0] for row in queries.all_rows(_DUE, now=now, limit=BATCH)]
    return sum(_book(allowance, now) for allowance in Allowance.objects.filter(pk__in=due).order_by("pk"))


def newest_of(tenant_id: int) -> int:
    """The id of the tenant's newest allowance, 0 when it has none."""
    return Allowance.objects.filter(tenant_id=tenant_id).aggregate(newest=Max("pk"))["newest"] or 0


def add(
    tenant_id: int,
    amount: int,
    every: str,
    *,
    category: Category,
    priority: int,
    lifetime_seconds: int | None,
    after: int,
) -> Allowance:
    """An allowance more, which is granted for this period too. `after` is the newest that the caller knows of.

    Opens the wallet if it is missing and locks its balance; then looks, in a later statement, for a newer allowance. A
    second caller waits and finds that of the first: NewerAllowance.
    """
    with transaction.atomic():
        ledger.open_wallet(tenant_id)
        ledger.lock_wallets([tenant_id])
        if newest_of(tenant_id) != after:
            raise NewerAllowance(tenant_id)
        return Allowance.objects.create(
            tenant_id=tenant_id,
            amount=amount,
            every=every,
            category=category,
            priority=priority,
            lifetime_seconds=lifetime_seconds,
            enabled=True,
        )


def enable(allowance_id: int, enabled: bool) -> bool:
    """Starts or stops it; what was granted stays. False: it was so before.

    One conditional update of its row: a second caller waits there and finds it so.
    """
    return bool(Allowance.objects.filter(pk=allowance_id).exclude(enabled=enabled).update(enabled=enabled))


def is_granted(allowance: Allowance) -> bool:
    """Whether this period (of the database's clock) is booked."""
    key = f"grant:{_source_key(allowance, begin_of_period(allowance.every, _database_now().astimezone(UTC)))}"
    return Lot.objects.filter(source_key=key).exists()


def begin_of_period(every: str, now: datetime) -> datetime:
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return day.replace(day=1) if every == Allowance.Every.MONTH else day


def begin_of_next(every: str, now: datetime) -> datetime:
    # A day and 40 days are in the next period whenever this one began.
    return begin_of_period(every, begin_of_period(every, now) + timedelta(days=40 if every == "month" else 1))


def _book(allowance: Allowance, now: datetime) -> bool:
    expires_at = _expiry(allowance, now)
    if expires_at is not None and expires_at <= now:  # added late in a period that it does not outlast
        return False
    source_key = _source_key(allowance, begin_of_period(allowance.every, now))
    category: Category = "paid" if allowance.category == "paid" else "promo"
    try:
        with transaction.atomic():
            ledger.open_wallet(allowance.tenant_id)
            crashpoint("allowance.opened")
            return ledger.grant(
                allowance.tenant_id,
                allowance.amount,
                source_key,
                category=category,
                priority=allowance.priority,
                expires_at=expires_at,
            )
    except LedgerConflict:  # the allowance was changed while another caller booked the period: it is booked
        return False
    except (OperationalError, InterfaceError):
        raise
    except Exception:  # whatever is wrong with one, the others are granted, and it is tried again
        logger.exception("allowance %s of tenant %s was not granted", allowance.pk, allowance.tenant_id)
        return False


def _source_key(allowance: Allowance, begin: datetime) -> str:
    period = f"{begin:%Y-%m}" if allowance.every == Allowance.Every.MONTH else f"{begin:%Y-%m-%d}"
    return f"allowance:{allowance.pk}:{period}"


def _expiry(allowance: Allowance, now: datetime) -> datetime | None:
    if allowance.lifetime_seconds is None:
        return None
    if allowance.lifetime_seconds == 0:
        return begin_of_next(allowance.every, now)
    return begin_of_period(allowance.every, now) + timedelta(seconds=allowance.lifetime_seconds)


def _database_now() -> datetime:
    found: datetime = queries.all_rows("SELECT clock_timestamp()")[0][0]
    return found
