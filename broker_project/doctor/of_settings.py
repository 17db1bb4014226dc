"""What the environment says: keys, names, times. Nothing here asks a server, except for what the keys must open."""

import os
import shutil
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks
from django.db.models import Q
from django.db.models.functions import Now
from django.http.request import validate_host

from broker_project import public_address
from broker_project.doctor.findings import Finding, error, ok, some, warning
from broker_project.installation_keys import DEVELOPMENT
from jobs.models import JobType
from pool.models import UpstreamAccount
from pool.secrets import SecretUnreadable
from tenants.models import ApiKey
from upstream.declared import merged
from upstream.quantities import counted

LOCAL = {"127.0.0.1", "localhost", "[::1]", "testserver"}
SHORTEST_SECRET_KEY = 32
LONGEST_SWEEP_SECONDS = 5
LONGEST_LEASE_SECONDS = 120
ANSWERED_BY = {
    "BEHIND_TLS=1, behind a proxy with TLS,": ["security.W012", "security.W016"],
    "HSTS_SECONDS=31536000, where all come by TLS,": ["security.W004"],
}
LITTLE_SPACE, HARDLY_ANY_SPACE = 2_000_000_000, 200_000_000  # bytes


def debug() -> Finding:
    if not settings.DEBUG:
        return ok("off")
    if set(settings.ALLOWED_HOSTS) <= LOCAL:
        return warning("on, for this machine only", "unset DEBUG wherever others have access")
    return error("on, and web answers to others", "unset DEBUG: it shows the inside of every error")


def crash_points() -> Finding:
    if folder := os.environ.get("CRASHPOINTS"):
        return warning(
            f"CRASHPOINTS is set ({folder}): who may write there ends our processes", "unset it: it is for tests"
        )
    return ok("none can be armed")


def keys() -> Finding:
    known = [name for name, value in DEVELOPMENT.items() if getattr(settings, name) == value]
    if DEVELOPMENT["SECRET_KEY"] in settings.SECRET_KEY_FALLBACKS:
        known.append("SECRET_KEY_FALLBACKS")
    if known:
        return error(f"{some(known)}: the development key, which everybody knows", "bring keys of your own")
    if len(settings.SECRET_KEY) < SHORTEST_SECRET_KEY:
        return warning(f"SECRET_KEY has {len(settings.SECRET_KEY)} characters", "bring 50 that nobody can guess")
    fallbacks = settings.SECRET_KEY_FALLBACKS
    if short := [len(key) for key in fallbacks if len(key) < SHORTEST_SECRET_KEY]:
        return warning(
            f"SECRET_KEY_FALLBACKS has a key of {min(short)} characters",
            "take it away when what it signed is over: docs/deployment.md, Rotate keys",
        )
    taken = f"; {counted(len(fallbacks), 'SECRET_KEY')} of before still taken" if fallbacks else ""
    return ok(f"SECRET_KEY, FIELD_KEYS and KEY_PEPPERS are there and can be read{taken}")


def field_keys() -> Finding:
    """Opens every credential that is stored."""
    accounts = list(UpstreamAccount.objects.exclude(sealed_credential="").select_related("pool").order_by("id"))
    closed = []
    for account in accounts:
        try:
            _ = account.credential
        except SecretUnreadable:
            closed.append(str(account))
    if closed:
        return error(
            f"the credentials of {counted(len(closed), 'account')} do not open: {some(closed)}",
            "add the key they were sealed with to FIELD_KEYS, or apply the configuration file again",
        )
    return ok(counted(len(accounts), "credential opens", "credentials open"))


def key_peppers() -> Finding:
    known = {entry.strip().partition(":")[0] for entry in settings.KEY_PEPPERS.split(",") if entry.strip()}
    alive = ApiKey.objects.filter(Q(expires_at=None) | Q(expires_at__gt=Now()), revoked_at=None)
    refused = list(alive.exclude(pepper__in=known).order_by("id").values_list("public_id", flat=True))
    if refused:
        return error(
            f"{counted(len(refused), 'live API key')} of another pepper: {some(refused)}",
            "add the pepper they were made with to KEY_PEPPERS, or issue new keys",
        )
    return ok(f"{counted(alive.count(), 'live API key')} can be verified")


def times() -> Finding:
    said = f"LEASE_SECONDS {settings.LEASE_SECONDS:g}, SWEEP_SECONDS {settings.SWEEP_SECONDS:g}"
    if settings.SWEEP_SECONDS > LONGEST_SWEEP_SECONDS:
        return warning(said, "each lost message costs up to one sweep: 1 is usual")
    if settings.LEASE_SECONDS > LONGEST_LEASE_SECONDS:
        return warning(said, "a lost worker keeps its sessions for one lease: 15 is usual")
    return ok(said)


def hosts() -> Finding:
    named = some(list(settings.ALLOWED_HOSTS))
    address = urlsplit(settings.WEB_URL).hostname
    if address and not validate_host(address, settings.ALLOWED_HOSTS):
        return error(f"web is reached at {address}, which ALLOWED_HOSTS ({named}) refuses", f"add {address} to it")
    if "*" in settings.ALLOWED_HOSTS:
        return warning("ALLOWED_HOSTS is *", "name the hosts: links in answers are made from the one that was asked")
    return ok(f"ALLOWED_HOSTS {named}")


def public_url() -> Finding:
    """Whether the upstreams of types with callbacks or files reach us there."""
    said: dict[str, list[str]] = {}
    for job_type in JobType.objects.filter(accepting=True).select_related("pool").order_by("name"):
        pool = job_type.pool
        if not (needed := public_address.needs(merged(pool.upstream, job_type.upstream), job_type.payload_schema)):
            continue
        own = pool.accounts.values_list("base_url", flat=True)
        doubt = public_address.doubt(settings.PUBLIC_URL, {url or pool.upstream.get("base_url", "") for url in own})
        if doubt:
            said.setdefault(doubt, []).append(f"{job_type.name} ({needed})")
    if said:
        return warning(
            "; ".join(f"PUBLIC_URL {doubt}; it is needed by {some(names)}" for doubt, names in said.items()),
            "set it to the https address at which upstreams reach web, for web and the workers; callbacks are made up"
            " for by polls, a file without an address is not",
        )
    return ok(f"PUBLIC_URL {settings.PUBLIC_URL or 'is empty'}: no job type is in want of another")


def deploy() -> Finding:
    """Django's own `check --deploy`, with the settings that answer what it advises most often."""
    found = [each for each in checks.run_checks(include_deployment_checks=True) if not each.is_silenced()]
    serious = sorted({str(each.id) for each in found if each.is_serious()})
    advised = sorted({str(each.id) for each in found if not each.is_serious()})
    if serious:
        return error(f"Django finds {some(serious)}", "`manage.py check --deploy` explains them")
    if advised:
        asked = {name: [each for each in ids if each in advised] for name, ids in ANSWERED_BY.items()}
        set_ = "".join(f"{name} answers {', '.join(ids)}; " for name, ids in asked.items() if ids)
        return warning(f"Django advises {some(advised, 10)}", f"{set_}`manage.py check --deploy` explains them")
    return ok("Django finds nothing")


def disk() -> Finding:
    usage = shutil.disk_usage(settings.HOME)
    said = f"{usage.free / 1e9:,.1f} GB free of {usage.total / 1e9:,.1f} GB at {settings.HOME}"
    if usage.free < HARDLY_ANY_SPACE:
        return error(said, "make room: servers that cannot write stop")
    if usage.free < LITTLE_SPACE:
        return warning(said, "make room before it is needed")
    return ok(said)
