"""What is told of money: what a job was charged and given back, a tenant's allowances and budgets, where an entry belongs."""

from typing import Any

from broker_project.control.words import link_to, list_of, moment
from credits import ledger
from credits.charges import charges_of
from credits.models import TENANT_LEDGER, Allowance, Hold, Lot, Transfer
from credits.pricing import short_text
from jobs.models import Job, LateCompletion
from statemachine.operations import Link, Section
from tenants.models import Tenant

MOST = 50  # rows of one section
MOST_LINKS = 10


def money_of_job(job: Job) -> Section:
    """What was held, charged and refunded, run by run, and what a success was worth that came too late.

    The refunds lead to their entries, where their reasons are.
    """
    rows = Hold.objects.filter(job_id=job.pk, attempt=0).select_related("review").order_by("-run")[:MOST]
    charges = charges_of([job.pk])
    late = {row.run: row for row in LateCompletion.objects.filter(job=job).order_by("-run")[:MOST]}
    cells = []
    for row in rows:
        cells.append(
            [row.run, row.status, short_text(row.amount), "–" if row.captured is None else short_text(row.captured),
             short_text(charges[job.pk, row.run].refunded) if (job.pk, row.run) in charges else "–",
             _why(row), moment(row.created_at), moment(row.resolved_at)]
        )  # fmt: skip
        if row.run in late:
            cells.append(_late_completion(late[row.run]))
    columns = ["Run", "Hold", "Held", "Charged", "Refunded", "Why", "Held at", "Resolved at"]
    return Section("Credits", columns, cells, "Nothing was held.", _refunds_of(job))


def _why(hold: Hold) -> str:
    """Why it was closed, or why it is still open after so long."""
    review = getattr(hold, "review", None)
    if hold.status == Hold.Status.OPEN and review is not None:
        return f"needs attention: {review.attention}" if review.attention else f"reviewed at {moment(review.due_at)}"
    return hold.reason or "–"


def _late_completion(late: LateCompletion) -> list[Any]:
    """Not of the wallet: the loss is ours."""
    if late.decided_at is None:
        worth, why = "–", "its run goes on"
    elif late.booked:
        worth, why = f"{short_text(late.booked)} (our loss)", "a success that surfaced late"
    else:
        worth, why = "0", late.why
    return [late.run, "late completion", "–", worth, "–", why, moment(late.at), moment(late.decided_at)]


def allowances_of(tenant: Tenant) -> Section:
    """What it is granted again and again."""
    rows = Allowance.objects.filter(tenant=tenant).order_by("-id")[:MOST]
    cells = [[link_to(row), row.category, row.priority, _lifetime(row), "yes" if row.enabled else "no"] for row in rows]
    more = [list_of(Lot, "all lots", q=tenant.name)] if cells else []
    return Section(
        "Allowances", ["Allowance", "Category", "Priority", "Each can be used", "Enabled"], cells, links=more
    )


def budgets_of(tenant: Tenant) -> Section:
    """What it was charged and has held in the day and the month of now, against its budgets."""
    found = ledger.budgets(tenant.pk)
    periods = (("day", found.day, found.used_in_day), ("month", found.month, found.used_in_month))
    cells = [
        [
            period,
            short_text(used),
            *(("none", "–") if budget is None else (short_text(budget), short_text(budget - used))),
        ]
        for period, budget, used in periods
    ]
    return Section("Budgets (UTC)", ["Period", "Charged and held", "Budget", "Left"], cells)


def entries_of_lot(lot: Lot) -> Section:
    """The entry that made it, and what expired of it. What was used of it stands with the holds."""
    rows = Transfer.objects.filter(lot=lot).order_by("-id")[:MOST]
    cells = [[moment(row.created_at), row.code, short_text(row.amount), link_to(row)] for row in rows]
    return Section("Entries", ["When", "Entry", "Amount", "Key"], cells)


def places_of_entry(entry: Transfer) -> Section:
    """Whose it is, and for which job."""
    # In other ledgers the owner is an upstream account, which may have a tenant's number.
    sides = (entry.debit, entry.credit) if entry.ledger == TENANT_LEDGER else ()
    tenants = Tenant.objects.filter(pk__in=[side.owner_id for side in sides if side.owner_id])
    jobs = Job.objects.filter(pk=entry.hold.job_id) if entry.hold is not None else Job.objects.none()
    cells = [["Tenant", link_to(row)] for row in tenants] + [["Job", link_to(row)] for row in jobs]
    return Section("Belongs to", ["What", "Which"], cells)


def _refunds_of(job: Job) -> list[Link]:
    rows = Transfer.objects.filter(reverses__hold__in=Hold.objects.filter(job_id=job.pk, attempt=0))
    return [link_to(row, f"refund of {short_text(row.amount)}") for row in rows.order_by("-id")[:MOST_LINKS]]


def _lifetime(allowance: Allowance) -> str:
    match allowance.lifetime_seconds:
        case None:
            return "for ever"
        case 0:
            return "until the next period"
        case seconds:
            return f"for {seconds / 86_400:g} days of its period"
