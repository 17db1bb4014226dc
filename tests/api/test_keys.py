"""API keys: made once, checked before the database is asked, revoked within a second."""

import io
import logging
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from statemachine.actors import at_the_shell
from tenants import keys
from tenants.models import ApiKey
from tests import factories
from tests.api.conftest import Caller, assert_problem

pytestmark = pytest.mark.django_db


def test_a_key_opens_its_tenant() -> None:
    tenant = factories.make_tenant()
    key = keys.issue(tenant, "first")
    found = keys.verify(key)
    assert found is not None
    assert (found.tenant, found.name, found.scopes) == (tenant, "first", list(keys.DEFAULT_SCOPES))


def test_nothing_of_the_secret_is_stored() -> None:
    key = keys.issue(factories.make_tenant())
    row = ApiKey.objects.values().get()
    secret = key.split("_")[2]
    assert secret[:32] not in str(row)
    assert len(bytes(row["secret_hash"])) == 32


@pytest.mark.parametrize("change", [lambda key: key[:-1], lambda key: key[:20] + "A" + key[21:], lambda key: key + "0"])
def test_a_mistyped_key_is_refused_without_a_query(change: Callable[[str], str]) -> None:
    key = keys.issue(factories.make_tenant())
    wrong = change(key) if change(key) != key else change(key).swapcase()
    with CaptureQueriesContext(connection) as queries:
        assert keys.verify(wrong) is None
    assert len(queries) == 0


def test_a_right_id_with_another_secret_is_refused() -> None:
    one, other = keys.issue(factories.make_tenant()), keys.issue(factories.make_tenant())
    body = one[:19] + other[19:51]
    forged = body + keys._check(body)
    assert keys.verify(forged) is None


def test_answers_are_kept_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    key = keys.issue(factories.make_tenant())
    keys.verify(key)
    with CaptureQueriesContext(connection) as queries:
        assert keys.verify(key) is not None
    assert len(queries) == 0
    ApiKey.objects.update(revoked_at=timezone.now())
    later = time.monotonic() + keys.KEPT_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert keys.verify(key) is None


@pytest.mark.parametrize("field", ["revoked_at", "expires_at"])
def test_a_key_that_has_ended_is_refused(caller: Caller, field: str) -> None:
    ApiKey.objects.update(**{field: timezone.now() - timedelta(seconds=1)})
    response = caller.get("/v1/balance")
    assert_problem(response, 401, "unauthenticated")
    assert response["WWW-Authenticate"].startswith("Bearer")


def test_use_is_noted_at_most_once_a_minute() -> None:
    key = keys.issue(factories.make_tenant())
    keys.verify(key)
    first = ApiKey.objects.get().last_used_at
    keys.forget()
    keys.verify(key)
    assert first is not None
    assert ApiKey.objects.get().last_used_at == first


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer x", "Basic eDp5", "Token berth_x"])
def test_without_a_valid_key_nothing_is_answered(caller: Caller, header: str) -> None:
    assert_problem(caller.get("/v1/jobs", Authorization=header), 401, "unauthenticated")


def test_a_key_does_what_its_scopes_say(caller_of: Callable[..., Caller]) -> None:
    reader = caller_of(scopes=("jobs:read",))
    assert reader.get("/v1/jobs").status_code == 200
    assert_problem(reader.get("/v1/balance"), 403, "forbidden-scope")
    assert_problem(reader.post("/v1/jobs", {}), 403, "forbidden-scope")


def test_the_command_prints_the_key_alone_on_the_last_line(caplog: pytest.LogCaptureFixture) -> None:
    tenant, out = factories.make_tenant(), io.StringIO()
    caplog.set_level(logging.INFO, "tenants.keys")
    call_command("issue_key", tenant.name, name="ci", scopes="jobs:read,jobs:write", stdout=out)
    key = out.getvalue().splitlines()[-1]
    found = keys.verify(key)
    assert found is not None
    assert (found.tenant, found.scopes, found.name) == (tenant, ["jobs:read", "jobs:write"], "ci")
    assert [vars(record)["actor"] for record in caplog.records] == [at_the_shell()]


def test_the_command_refuses_what_does_not_exist() -> None:
    with pytest.raises(CommandError, match="no tenant"):
        call_command("issue_key", "nobody")
    with pytest.raises(CommandError, match="no such scope"):
        call_command("issue_key", factories.make_tenant().name, scopes="everything")
