"""`manage.py audit`: what it prints, that it only reads, and how it ends."""

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError

from broker_project import checkpoint
from broker_project.audit import RULES, audit
from broker_project.checkpoint import GROWING
from broker_project.touched import Part
from credits import ledger
from tests.db import execute
from tests.factories import at, make_job_type, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_healthy_database_is_ticked_rule_by_rule(capsys: pytest.CaptureFixture[str]) -> None:
    at("completed")
    call_command("audit")
    said = capsys.readouterr().out
    assert all(f"✓ {rule}" in said for rule in RULES)
    assert said.endswith(f"{len(RULES)} rules hold\n")


@pytest.mark.tampers
def test_a_breach_is_named_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    job = at("completed")
    execute("UPDATE jobs_job SET charged = charged + 1")
    with pytest.raises(CommandError, match="1 breach of 1 rule"):
        call_command("audit")
    said = capsys.readouterr().out
    assert f"    job {job.id}: captured 3000000, expected captured 3000001" in said
    with pytest.raises(CommandError):
        call_command("audit", "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["breaches"] == 1
    rule = found["rules"]["P5.completed_job_is_charged_what_was_captured"]
    assert rule["count"] == 1
    assert rule["rows"][0]["subject"] == f"job {job.id}"
    assert rule["ms"] >= 0


def test_it_says_what_it_asked(capsys: pytest.CaptureFixture[str]) -> None:
    at("completed")
    for arguments, asked in [
        (["--since-checkpoint"], "Asked: all; there is no checkpoint of these rules\n"),
        (["--since-checkpoint"], "Asked: what was touched since 20"),
        ([], "Asked: all\n"),
    ]:
        call_command("audit", *arguments)
        assert capsys.readouterr().out.startswith(asked)
    call_command("audit", "--json", "--since-checkpoint")
    said = json.loads(capsys.readouterr().out)
    assert (said["asked"][:22], said["breaches"], said["checkpoint_moved"]) == ("what was touched since", 0, True)


@pytest.mark.tampers
def test_a_tenant_is_asked_alone(capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = make_tenant(), make_tenant()
    for tenant in (good, bad):
        for state in ("completed", "failed", "processing", "pending"):
            at(state, make_job_type(), tenant)
    execute("UPDATE jobs_job SET charged = charged + 1 WHERE tenant_id = %s AND state = 'completed'", [bad.pk])
    execute("UPDATE credits_balance SET held = held + 1 WHERE account_id = %s", [ledger.open_wallet(bad.pk)])
    call_command("audit", "--tenant", good.name)
    assert capsys.readouterr().out.startswith(f"Asked: what is of tenant {good.name}\n")
    with pytest.raises(CommandError, match="3 breaches of 3 rules"):
        call_command("audit", "--tenant", bad.name)
    with pytest.raises(CommandError, match="no tenant is named 'nobody'"):
        call_command("audit", "--tenant", "nobody")
    assert checkpoint.load() is None


@pytest.mark.parametrize("part", [None, Part(dict.fromkeys(GROWING, 0))])
def test_it_cannot_write(part: Part | None) -> None:
    with pytest.raises(DatabaseError, match="read-only transaction"):
        audit({"writes": "SELECT nextval('jobs_arrival') AS subject, 1 AS found, 2 AS expected"}, part)
