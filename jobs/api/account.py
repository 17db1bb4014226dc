"""What a tenant may know around its jobs: its balance, the job types it may submit, how full their pools are."""

from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request

from credits import ledger
from credits import reading as money
from credits.errors import NoWallet
from credits.ledger import WalletBalance
from credits.pricing import decimal_text
from jobs.api import pages, schemas
from jobs.api.answers import ApiView, answer
from jobs.models import JobType
from jobs.queries import occupancy, reading
from statemachine.sql import Row
from tenants.models import Tenant

recent = occupancy.Recent(1.0, occupancy.filling)


class Balance(ApiView):
    """Credits posted, held and available, and the tenant's own budgets."""

    scopes = {"GET": "ledger:read"}

    @schemas.balance
    def get(self, request: Request) -> HttpResponse:
        pages.read_query(request.GET, {})
        balance = wallet_of(self.tenant)
        shown = ("posted", "held", "available", "credit_limit", "owed")
        expiring = [
            {"expires_at": part.expires_at, "amount": decimal_text(part.amount)}
            for part in money.expiring(self.tenant.pk)
        ]
        amounts = {name: decimal_text(getattr(balance, name)) for name in shown}
        return answer({**amounts, "budgets": _budgets_document(self.tenant), "expiring": expiring})


class JobTypes(ApiView):
    """What may be submitted."""

    scopes = {"GET": "jobs:read"}

    @schemas.job_types
    def get(self, request: Request) -> HttpResponse:
        pages.read_query(request.GET, {})
        own = self.tenant.prices
        return answer(
            {"data": [_type_document(found, own.get(found.name)) for found in reading.job_types(self.tenant)]}
        )


class Pools(ApiView):
    """How full the pools of the tenant's job types are."""

    scopes = {"GET": "jobs:read"}

    @schemas.pools
    def get(self, request: Request) -> HttpResponse:
        pages.read_query(request.GET, {})
        allowed = {found.pool.name for found in reading.job_types(self.tenant)}
        return answer({"data": [_pool_document(row) for row in recent.rows() if row["name"] in allowed]})


def wallet_of(tenant: Tenant) -> WalletBalance:
    """As last committed. A tenant that is not billed need not have one: then nothing is in it."""
    try:
        return ledger.balances(tenant.pk)
    except NoWallet:
        return WalletBalance(0, 0, 0, 0)


def _budgets_document(tenant: Tenant) -> dict[str, Any]:
    found = ledger.budgets(tenant.pk)
    periods = {"day": (found.day, found.used_in_day), "month": (found.month, found.used_in_month)}
    return {
        period: None if budget is None else {"budget": decimal_text(budget), "used": decimal_text(used)}
        for period, (budget, used) in periods.items()
    }


def _type_document(found: JobType, own_price: str | None) -> dict[str, Any]:
    return {
        "name": found.name,
        "pool": found.pool.name,
        "price": found.price,
        "tenant_price": own_price,
        "settle": found.settle or None,
        "payload_schema": found.payload_schema,
        "max_payload_bytes": found.max_payload_bytes,
        "start_deadline_seconds": None if found.start_deadline_ms is None else found.start_deadline_ms / 1000,
        "max_runtime_seconds": found.max_runtime_ms / 1000,
        "delivery": found.delivery,
        "version": found.version,
    }


def _pool_document(row: Row) -> dict[str, Any]:
    return {
        "name": row["name"],
        "accepting": row["accepting"],
        "closed_until": row["quarantined_until"],
        "depth": row["jobs"]["pending"],
        "running": row["jobs"]["assigned"] + row["jobs"]["processing"],
        "lag_seconds": round(row["lag_seconds"], 3),
        "sessions": {"total": sum(row["sessions"].values()), **row["sessions"]},
        "estimated_wait_seconds": None,
    }
