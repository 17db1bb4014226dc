"""What is told of a row beside its fields: the story of a job, the sessions of an account, a tenant's money and keys."""

from typing import Any

from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model

from broker_project.control.words import lines_of, link_to, list_of, several
from broker_project.control.words import moment as _time
from credits.models import Account, Balance, Transfer
from credits.pricing import short_text
from jobs import decisions, outlook
from jobs.flight import Flight
from jobs.models import Attempt, Evidence, Job, JobMove
from jobs.queries.under_way import under_way
from pool.models import Pool, Resource, ResourceMove, UpstreamAccount
from statemachine.operations import Link, Section
from tenants.models import ApiKey, Tenant

MOST = 50  # rows of one section


def moves_of_job(job: Job) -> Section:
    """Every move, with who made it and why."""
    return _moves(JobMove.objects.filter(subject_id=job.pk))


def deeds_on(row: Model) -> Section:
    """What operators did to it, with their reasons."""
    kind = ContentType.objects.get_for_model(row)
    rows = (
        LogEntry.objects.filter(content_type=kind, object_id=str(row.pk)).select_related("user").order_by("-id")[:MOST]
    )
    cells = [[_time(entry.action_time), entry.user.get_username(), entry.get_change_message()] for entry in rows]
    return Section(_bounded("What operators did", cells), ["When", "Who", "What"], cells, "Nothing.")


def moves_of_session(session: Resource) -> Section:
    """The newest moves."""
    return _moves(ResourceMove.objects.filter(subject_id=session.pk))


def attempts_of(job: Job) -> Section:
    """Every try, on which session, and what came of it."""
    rows = Attempt.objects.filter(job=job).select_related("resource__account__pool").order_by("-number")[:MOST]
    cells = [
        [link_to(row, f"{row.number} (run {row.run})"), link_to(row.resource), row.phase, row.verdict or "–",
         _error(row), row.reference or "–", _time(row.called_at), _time(row.ended_at)]
        for row in rows
    ]  # fmt: skip
    columns = ["Attempt", "Session", "Phase", "Verdict", "Error", "Upstream's reference", "Called", "Ended"]
    return Section(_bounded("Attempts", cells), columns, cells, "None yet.", _flower(job))


def outlook_of(job: Job) -> Section:
    """What is known of it at the upstream, how that is found out, and what comes of it by itself."""
    flight = under_way([job.pk]).get(job.pk) if job.state == "processing" else None
    title = "At the upstream: what is known, and what comes next by itself"
    if flight is None:
        return Section(title, [], [], "Nothing is there now.")
    more = "More in docs/operations.md: A job that is being found out."
    return Section(
        title, ["What", "How it stands"], [*outlook.in_full(flight), ("What to do", f"{_todo(flight)} {more}")]
    )


def evidence_of(attempt: Attempt) -> Section:
    """What was learned of it, from whomever and however late."""
    rows = Evidence.objects.filter(attempt=attempt).order_by("-id")[:MOST]
    return Section("Evidence", ["When", "Kind", "Fence", "Content"],
                   [[_time(row.at), row.kind, row.fence, lines_of(row.content)] for row in rows])  # fmt: skip


def wallet_of(tenant: Tenant) -> Section:
    """Its balance, and the newest entries."""
    account = Account.objects.filter(kind=Account.Kind.WALLET, owner_id=tenant.pk).first()
    if account is None:
        return Section("Credits", [], [], "No wallet.")
    balance = Balance.objects.get(pk=account.pk)
    said = f"{short_text(balance.posted)} posted, {short_text(balance.held)} held"
    said += f", line {short_text(balance.credit_limit)}" if balance.credit_limit else ""
    said += f", {short_text(balance.owed)} owed" if balance.owed else ""
    # Each side by its index, ten at the most: all of a busy tenant's entries would be many.
    sides = [Transfer.objects.filter(debit=account), Transfer.objects.filter(credit=account)]
    entries = sorted((row for side in sides for row in side.order_by("-id")[:10]), key=lambda row: -row.pk)
    cells = [
        [
            _time(row.created_at),
            link_to(row, row.code),
            short_text(row.amount if row.credit_id == account.pk else -row.amount),
        ]
        for row in entries[:10]
    ]
    return Section(f"Credits: {said}; newest entries", ["When", "Entry", "Amount"], cells, "No entries yet.")


def keys_of(tenant: Tenant) -> Section:
    """Its API keys; their secrets are kept nowhere."""
    rows = ApiKey.objects.filter(tenant=tenant).order_by("-id")[:MOST]
    cells = [
        [
            link_to(row, row.public_id),
            row.name or "–",
            ", ".join(row.scopes),
            _time(row.last_used_at),
            _time(row.revoked_at),
        ]
        for row in rows
    ]
    return Section(_bounded("API keys", cells), ["Key", "Name", "Scopes", "Last used", "Revoked"], cells)


def jobs_of(tenant: Tenant) -> Section:
    """The newest jobs."""
    rows = Job.objects.filter(tenant=tenant).select_related("type").order_by("-id")[:10]
    cells = [[link_to(row), row.type.name, row.state, short_text(row.charged), _time(row.created_at)] for row in rows]
    more = [list_of(Job, "all", tenant__id__exact=tenant.pk)]
    return Section("Newest jobs", ["Job", "Type", "State", "Charged", "Submitted"], cells, links=more)


def sessions_of(account: UpstreamAccount) -> Section:
    """Every session and where it stands."""
    return _sessions(Resource.objects.filter(account=account).order_by("number")[:MOST])


def accounts_of(pool: Pool) -> Section:
    """The accounts with their sessions."""
    rows = UpstreamAccount.objects.filter(pool=pool).order_by("name")[:MOST]
    cells = [[link_to(row), several(row.sessions, "session"), row.base_url or "–"] for row in rows]
    more = [list_of(Resource, "sessions", pool__id__exact=pool.pk), list_of(Job, "jobs", pool__id__exact=pool.pk)]
    return Section(_bounded("Accounts", cells), ["Account", "Sessions", "Address"], cells, links=more)


def attempts_on(session: Resource) -> Section:
    """The attempts on it of the job it was given to last. All it ever had are in no index: that would cost each assign."""
    rows = (
        Attempt.objects.filter(job_id=session.job_id, resource=session).order_by("-id")[:MOST] if session.job_id else []
    )
    cells = [
        [
            Link(str(row.job_id), link_to(Job(pk=row.job_id)).address),
            row.phase,
            row.verdict or "–",
            _time(row.opened_at),
        ]
        for row in rows
    ]
    return Section("Attempts of its last job", ["Job", "Phase", "Verdict", "Opened"], cells)


def _sessions(rows: Any) -> Section:
    cells = [
        [
            link_to(row),
            row.state,
            "yes" if row.accepting and not row.disabled else "no",
            _time(row.available_at),
            "the account is refused: see Health" if row.refused else row.reason or row.note or "–",
        ]
        for row in rows
    ]
    return Section(_bounded("Sessions", cells), ["Session", "State", "Accepts", "Rests until", "Why"], cells)


def _moves(rows: Any) -> Section:
    cells = [
        [_time(row.at), row.from_state or "–", row.to_state, row.cause, row.actor]
        for row in rows.order_by("-id")[:MOST]
    ]
    return Section(_bounded("History", cells), ["When", "From", "To", "Cause", "Actor"], cells)


def _todo(flight: Flight) -> str:
    """Whether waiting suffices."""
    if not decisions.mark(flight.job_id):
        return "Nothing: waiting suffices."
    if flight.waited_out and flight.was_taken:
        return "Ask the provider. It goes on being asked for; Decide the outcome ends it with what you found out."
    return "Nothing: waiting suffices. Decide the outcome only if you know more than the upstream tells."


def _error(attempt: Attempt) -> str:
    return ": ".join(filter(None, (attempt.error_code, attempt.error_message))) or "–"


def _bounded(title: str, cells: list[Any]) -> str:
    """The title says when there may be more than is shown."""
    return title if len(cells) < MOST else f"{title} (here {MOST}; there may be more)"


def _flower(job: Job) -> list[Link]:
    """Flower's list of tasks, searched by the job's id: its `name` parameter takes a whole search."""
    return [Link("its tasks in Flower", f"{settings.FLOWER_URL}/tasks?name=jobs%20args:{job.pk}")] * bool(
        settings.FLOWER_URL
    )
