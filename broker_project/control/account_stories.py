"""What is told of the credits of upstream accounts: how one stands and was read, what a job's attempts took, whose one is."""

from django.db.models import F, OuterRef, Q, Subquery, TextField, Value
from django.db.models.functions import Cast, Concat

from broker_project.control.account_money import stands
from broker_project.control.words import link_to, list_of, moment
from credits.models import Account, Balance, Hold, Reading
from credits.models.accounts import resource_ledger
from credits.owners import Owners
from credits.pricing import short_text
from jobs.models import Job
from jobs.queries.balances import standing
from jobs.queries.health_of_accounts import in_trouble
from pool.models import UpstreamAccount
from statemachine.operations import Column, Section

MOST = 50  # rows of one section
MOST_READINGS = 10


def credits_of_account(account: UpstreamAccount) -> Section:
    """Its balance, and the newest readings."""
    found = standing([account.pk])
    if not found:
        return Section("Credits", [], [], "Not tracked: the configuration does not say what it has.")
    [row] = found
    book = resource_ledger(account.pool_id)
    rows = Reading.objects.filter(
        account__ledger=book, account__kind=Account.Kind.UPSTREAM, account__owner_id=account.pk
    )
    cells = [
        [link_to(reading, moment(reading.at)), short_text(reading.said), _expected(reading), short_text(reading.drift),
         "yes" if reading.booked else "NO: too far off", reading.key]
        for reading in rows.order_by("-id")[:MOST_READINGS]
    ]  # fmt: skip
    title = (
        f"Credits: {stands(row)}; {short_text(row['spent'])} spent, {short_text(row['drift'])} drift; newest readings"
    )
    columns = ["When", "Provider said", "Ledger", "Off", "Booked", "Key"]
    named = f"{account.pool.name} {account.name}"
    more = [list_of(Reading, "all readings", q=named), list_of(Balance, "balance", q=named)]
    return Section(title, columns, cells, "Never read.", more)


def health_of_account(account: UpstreamAccount) -> Section:
    """What is held against it, and why; nothing where it never failed."""
    columns = ["Failures in a row", "Quarantines in a row", "At rest until", "Why", "Refused"]
    cells = [
        [
            str(row["failures"] or 0),
            str(row["level"] or 0),
            moment(row["open_until"]),
            row["why"] or "–",
            row["note"] or "–",
        ]
        for row in in_trouble(account.pk)
    ]
    return Section("Health", columns, cells, "It has not failed.")


def accounts_of_job(job: Job) -> Section:
    """What its attempts set aside and took of upstream accounts: our money, not the tenant's."""
    rows = list(Hold.objects.filter(job_id=job.pk, attempt__gt=0).select_related("account").order_by("-attempt")[:MOST])
    owners = {row.account.owner_id for row in rows if row.account.owner_id is not None}
    accounts = UpstreamAccount.objects.select_related("pool").in_bulk(owners)
    cells = [
        [f"{row.attempt} (run {row.run})", link_to(accounts[row.account.owner_id or 0]), row.status, short_text(row.amount),
         "–" if row.captured is None else short_text(row.captured + row.overrun), row.reason or "–",
         moment(row.created_at), moment(row.resolved_at)]
        for row in rows
    ]  # fmt: skip
    columns = ["Attempt", "Account", "Hold", "Expected", "Took", "Why", "Held at", "Resolved at"]
    return Section("Credits of upstream accounts", columns, cells, "Nothing was held of any.")


OWNERS = Owners(
    lambda pk: str(UpstreamAccount.objects.select_related("pool").filter(pk=pk).first() or pk),
    lambda word: UpstreamAccount.objects.filter(Q(name__icontains=word) | Q(pool__name__icontains=word)).values_list(
        "pk", flat=True
    ),
)


# The ledger is named as by `resource_ledger`, in SQL, so that a list asks for all of its rows at once.
_BALANCES = Balance.objects.filter(
    account__ledger=Concat(Value("resource:"), Cast(OuterRef("pool_id"), TextField())),
    account__kind=Account.Kind.UPSTREAM,
    account__owner_id=OuterRef("pk"),
)
LEFT = Column(
    "credits_left",
    "credits left",
    Reading,
    Subquery(_BALANCES.values(left=F("posted") - F("held"))),
    lambda left: "–" if left is None else short_text(left),
)


def _expected(reading: Reading) -> str:
    """One number, or from what may have been charged already to what is posted."""
    highest = short_text(reading.posted)
    return f"{short_text(reading.posted - reading.held)} to {highest}" if reading.held else highest
