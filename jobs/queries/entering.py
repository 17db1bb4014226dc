"""The statements by which a job enters; sent in one message, so that nobody waits for us under the lock of the balance."""

from typing import Any

from django.db import connection
from django.db.models.sql import InsertQuery

from jobs.models import Job

# What the statement raises as SQLSTATE, and returns otherwise: low, given (ids), turns. See migrations/functions_0011.
ENTER = """
SELECT low, given, turns
FROM jobs_enter(%s::uuid, %s::int, %s::bigint, %s::bigint, %s::bigint, %s::float8, %s::boolean, %s::boolean)"""
REFUSED, HELD_BEFORE, LITTLE_IS_LEFT = "BE001", "BE002", "BE003"


def insertion(job: Job) -> tuple[str, list[Any]]:
    """The INSERT of a new job as `save` would write it, and its parameters."""
    query = InsertQuery(Job)
    query.insert_values(Job._meta.local_concrete_fields, [job])
    [(sql, parameters)] = query.get_compiler(connection=connection).as_sql()
    return sql, list(parameters)


def inserted(job: Job) -> None:
    """The job stands in the database; what that filled in is read when somebody asks for it."""
    job._state.adding, job._state.db = False, connection.alias
    for field in Job._meta.local_concrete_fields:
        if hasattr(job.__dict__.get(field.attname), "resolve_expression"):
            del job.__dict__[field.attname]
