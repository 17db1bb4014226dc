"""What tenants are told of their credits: an event each time little is left, and before credits expire."""

from collections.abc import Mapping

from credits import ledger
from credits.pricing import decimal_text
from jobs.models import Job
from jobs.queries import notices
from tenants.models import Tenant
from webhooks import outbox
from webhooks.models import Event

NOTICE_DAYS = (7, 1)  # before credits expire
MOST_NOTICES = 1_000  # of one round; what is left is told by the next


def credits_are_low(tenant: Tenant, job: Job) -> None:
    """Written by the transaction that held for `job`, which brought the wallet below the tenant's mark."""
    balance = ledger.balances(tenant.pk)
    data = {
        "available": decimal_text(balance.available),
        "held": decimal_text(balance.held),
        "low_below": decimal_text(tenant.low_below or 0),
        "job": str(job.pk),
    }
    outbox.write_once([_event(tenant.pk, "credits.low", f"credits.low:{job.pk}:{job.run}", data)])


def credits_expire_soon() -> int:
    """Tells the tenants of lots that expire within each notice, once each; returns how many. For a periodic task.

    Locks nothing; of two at once, the second finds the key of the event taken.
    """
    events = [
        _event(
            row["tenant_id"],
            "credits.expiring",
            row["key"],
            {
                "amount": decimal_text(row["amount"]),
                "expires_at": row["expires_at"].isoformat(),
                "within_days": row["days"],
            },
        )
        for row in notices.expiring(list(NOTICE_DAYS), MOST_NOTICES)
    ]
    outbox.write_once(events)
    return len(events)


def _event(tenant_id: int, type_: str, key: str, data: Mapping[str, object]) -> Event:
    return Event(tenant_id=tenant_id, type=type_, key=key, body={"type": type_, "data": data})
