"""What is told of the credits of upstream accounts: how one stands and was read, what a job's attempts took, whose one is."""

from django.db.models import F, OuterRef, Q, Subquery, TextField, Value
from django.db.models.functions import Cast, Concat

from broker_project.control.account_money import stands
from broker_project.control.words import link_to, list_of, moment, several
from credits.models import Account, Balance, Hold, Reading
from credits.models.accounts import resource_ledger
from credits.owners import Owners
from credits.pricing import short_text
from jobs.models import Job
from jobs.queries.balances import standing
from jobs.queries.health_of_accounts import in_trouble
from pool.judging import REFUSED
from pool.models import UpstreamAccount
from pool.queries.sessions import refused_since
from statemachine.operations import Column, Section
from statemachine.sql import Row

MOST = 50  # rows of one section
MOST_READINGS = 10
_PROBE = "Nothing: one session comes back first, as a probe. End the rest if it works again."
_ADVICE = (
    "Apply a file with a credential that works: the sessions come back by themselves. Enable only when the same "
    "credential works again, for instance because the provider was paid."
)


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
    """What is held against it: since when, until when, why, and what to do; nothing where it never failed."""
    columns = ["What", "Since", "Until", "Why", "What to do"]
    cells = [line for row in in_trouble(account.pk) for line in _troubles(row)]
    return Section("Health", columns, cells, "It has not failed.")


def _troubles(row: Row) -> list[list[str]]:
    """A line for each thing that is held against an account (a row of `in_trouble`)."""
    lines = []
    if row["refused"]:
        what = f"refused by the upstream; {several(row['refused'], 'session')} of it stay offline"
        since, why = moment(refused_since(row["account_id"])), row["note"].removeprefix(REFUSED)
        lines.append([what, since, "an operator acts", why, _ADVICE])
    if row["is_open"]:
        times = "" if row["level"] < 2 else f" (rest {row['level']} in a row)"
        since, until = moment(row["failed_at"]), moment(row["open_until"])
        lines.append([f"at rest after failures{times}", since, until, row["why"] or "–", _PROBE])
    elif row["failures"]:
        what = f"{several(row['failures'], 'failure')} in a row, the last"
        lines.append([what, moment(row["failed_at"]), "it succeeds", row["why"] or "–", "Nothing."])
    return lines


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
