"""Times that a tenant names are compared with the database's clock, whatever a web process has for one."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from tests import factories
from tests.api.conftest import Caller, body_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def database_ahead() -> Iterator[None]:
    """For this connection the database's clock is two hours ahead of this process."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA ahead")
        cursor.execute("""CREATE FUNCTION ahead.clock_timestamp() RETURNS timestamptz LANGUAGE sql
                          AS 'SELECT pg_catalog.clock_timestamp() + interval ''2 hours'''""")
        cursor.execute("SET search_path = ahead, pg_catalog, public")
        yield
        cursor.execute("SET search_path = DEFAULT")
        cursor.execute("DROP SCHEMA ahead CASCADE")


def in_minutes(minutes: float) -> str:
    return (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()


def test_run_at_has_passed_when_it_has_for_the_database(caller: Caller, database_ahead: None) -> None:
    job_type = factories.make_job_type()
    soon, later = (caller.submit(job_type, run_at=in_minutes(minutes)) for minutes in (30, 150))
    assert body_of(soon)["waiting_for"] != "run_at"
    assert body_of(later)["waiting_for"] == "run_at"


def test_a_deadline_lies_ahead_when_it_does_for_the_database(caller: Caller, database_ahead: None) -> None:
    job_type = factories.make_job_type()
    assert caller.submit(job_type, start_deadline=in_minutes(30)).status_code == 422
    assert caller.submit(job_type, start_deadline=in_minutes(130)).status_code == 202
