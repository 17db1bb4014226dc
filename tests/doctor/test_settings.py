"""What the doctor says of the environment: what is unsafe, what opens nothing, what contradicts itself."""

from typing import Any

import pytest
from cryptography.fernet import Fernet

from broker_project.doctor import of_settings
from broker_project.installation_keys import DEVELOPMENT
from tenants import keys
from tenants.models import ApiKey
from tests import db, factories


def test_debug_is_an_error_where_others_have_access(settings: Any) -> None:
    assert of_settings.debug().level == "ok"
    settings.DEBUG = True
    settings.ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
    assert of_settings.debug().level == "warning"
    settings.ALLOWED_HOSTS = ["broker.example"]
    assert of_settings.debug().level == "error"


def test_crash_points_that_can_be_armed_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_settings.crash_points().level == "ok"
    monkeypatch.setenv("CRASHPOINTS", "/somewhere")
    assert of_settings.crash_points().level == "warning"


@pytest.mark.parametrize("name", DEVELOPMENT)
def test_a_key_that_everybody_knows_is_an_error(settings: Any, name: str) -> None:
    assert of_settings.keys().level == "ok"
    setattr(settings, name, DEVELOPMENT[name])
    found = of_settings.keys()
    assert (found.level, found.found.startswith(f"{name}: the development key")) == ("error", True)
    assert DEVELOPMENT[name] not in found.found


def test_secret_keys_of_before_are_looked_at_too(settings: Any) -> None:
    settings.SECRET_KEY_FALLBACKS = ["x" * 50]
    assert (of_settings.keys().level, "1 SECRET_KEY of before" in of_settings.keys().found) == ("ok", True)
    settings.SECRET_KEY_FALLBACKS = ["x" * 50, "short"]
    assert (of_settings.keys().level, "a key of 5 characters" in of_settings.keys().found) == ("warning", True)
    settings.SECRET_KEY_FALLBACKS = [DEVELOPMENT["SECRET_KEY"]]
    assert (of_settings.keys().level, of_settings.keys().found.partition(":")[0]) == ("error", "SECRET_KEY_FALLBACKS")


def test_a_short_secret_key_is_told(settings: Any) -> None:
    settings.SECRET_KEY = "short"
    assert of_settings.keys().level == "warning"


@pytest.mark.django_db
def test_credentials_that_no_key_opens_are_named(settings: Any) -> None:
    pool = factories.make_pool(accounts=2)
    assert of_settings.field_keys().found == "2 credentials open"
    settings.FIELD_KEYS = f"k9:{Fernet.generate_key().decode()}"
    found = of_settings.field_keys()
    assert found.level == "error"
    assert f"2 accounts do not open: {pool.name}/acct-001, {pool.name}/acct-002" in found.found


@pytest.mark.django_db
def test_live_keys_of_a_lost_pepper_are_named_and_dead_ones_are_not(settings: Any) -> None:
    tenant = factories.make_tenant()
    live, _revoked, _expired = (keys.issue(tenant) for _ in range(3))
    revoked, expired = ApiKey.objects.order_by("id")[1:]
    ApiKey.objects.filter(pk=revoked.pk).update(revoked_at=db.value("SELECT now()"))
    ApiKey.objects.filter(pk=expired.pk).update(expires_at=db.value("SELECT now()"))
    assert of_settings.key_peppers().found == "1 live API key can be verified"
    settings.KEY_PEPPERS = f"9:{'ab' * 32}"
    found = of_settings.key_peppers()
    assert (found.level, found.found) == ("error", f"1 live API key of another pepper: {live.split('_')[1]}")


def test_times_that_keep_work_waiting_are_told(settings: Any) -> None:
    assert of_settings.times().level == "ok"
    settings.SWEEP_SECONDS = 30
    assert of_settings.times().level == "warning"
    settings.SWEEP_SECONDS, settings.LEASE_SECONDS = 1, 600
    assert of_settings.times().level == "warning"


def test_an_address_that_web_refuses_is_an_error(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["broker.example"]
    settings.WEB_URL = "https://broker.example:8443"
    assert of_settings.hosts().level == "ok"
    settings.WEB_URL = "https://other.example"
    found = of_settings.hosts()
    assert (found.level, found.advice) == ("error", "add other.example to it")
    settings.ALLOWED_HOSTS = ["*"]
    assert of_settings.hosts().level == "warning"


CALLED_BACK = {"mode": "callback", "submit": {"path": "'/run'", "body": "{'hook': callback_url}"}}
FILES = {"type": "object", "properties": {"image": {"type": "object", "properties": {"file": {"type": "string"}}}}}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("public_url", "why"),
    [
        ("", "PUBLIC_URL is empty"),
        ("http://127.0.0.1:8000", "is an address of this machine or network"),
        ("https://localhost", "is an address of this machine or network"),
        ("https://10.0.0.4", "is an address of this machine or network"),
        ("http://berth.example", "is plain http"),
        ("https://berth.example", ""),
    ],
)
def test_an_address_that_upstreams_do_not_reach_is_told(settings: Any, public_url: str, why: str) -> None:
    settings.PUBLIC_URL = public_url
    far = factories.make_pool(upstream={"base_url": "https://api.provider.example"})
    factories.make_job_type(far, name="plain")
    assert of_settings.public_url().level == "ok"
    factories.make_job_type(far, name="told", upstream=CALLED_BACK)
    factories.make_job_type(far, name="image", payload_schema=FILES)
    found = of_settings.public_url()
    assert (found.level == "warning") is bool(why)
    assert why in found.found
    assert ("needed by image (files), told (callbacks)" in found.found) is bool(why)


@pytest.mark.django_db
def test_an_upstream_nearby_is_reached_at_a_near_address_but_not_at_none(settings: Any) -> None:
    factories.make_job_type(factories.make_pool(upstream={"base_url": "http://127.0.0.1:9900"}), upstream=CALLED_BACK)
    settings.PUBLIC_URL = "http://web:8000"
    assert of_settings.public_url().level == "ok"
    settings.PUBLIC_URL = ""
    assert of_settings.public_url().level == "warning"


def test_what_django_advises_names_the_settings_that_answer_it(settings: Any) -> None:
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = False
    settings.SECURE_HSTS_SECONDS = 0
    advice = of_settings.deploy().advice
    assert "BEHIND_TLS=1, behind a proxy with TLS, answers security.W012, security.W016" in advice
    assert "HSTS_SECONDS=31536000, where all come by TLS, answers security.W004" in advice
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    assert "BEHIND_TLS" not in of_settings.deploy().advice


def test_what_django_advises_is_summed_up() -> None:
    found = of_settings.deploy()
    assert found.level in ("ok", "warning")
    assert "security." in found.found or found.found == "Django finds nothing"


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_settings.disk().level in ("ok", "warning")
    monkeypatch.setattr(of_settings, "LITTLE_SPACE", 10**18)
    assert of_settings.disk().level == "warning"
    monkeypatch.setattr(of_settings, "HARDLY_ANY_SPACE", 10**18)
    assert of_settings.disk().level == "error"
