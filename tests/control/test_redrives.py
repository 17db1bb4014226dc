"""Redrives from the admin and the shell: what is meant is shown first, begun once, followed and stopped."""

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core.management import CommandError, call_command
from django.urls import reverse

from jobs import redrives
from jobs.models import Job, Redrive
from tests import factories
from tests.control.conftest import Operator
from tests.factories import FAILURE

pytestmark = pytest.mark.django_db
FORM = {"code": "bad_prompt", "rate": "2", "reason": "the provider mended it"}


def begin(operator: Operator, **form: str) -> Any:
    return operator.client.post(reverse("admin:jobs_redrive_begin"), form, follow=True)


def shell(*arguments: str) -> str:
    said = io.StringIO()
    call_command("redrive", *arguments, stdout=said)
    return said.getvalue()


def test_the_effect_is_shown_before_it_is_begun_once_and_recorded(operator: Operator) -> None:
    job = factories.at("failed", factories.make_job_type(name="clip"), factories.make_tenant(name="acme"))
    shown = begin(operator, **FORM)
    text = " ".join(re.sub("<[^>]+>", " ", shown.content.decode()).split())
    assert "clip acme bad_prompt 1 10" in text
    assert "1 job, 10 credits" in text
    assert not Redrive.objects.exists()
    token = re.search('name="token" value="([0-9a-f]{32})"', shown.content.decode())
    assert token is not None
    for _ in range(2):
        begin(operator, **FORM, token=token[1], confirm="1")
    redrive = Redrive.objects.get()
    assert (redrive.filter, redrive.rate, redrive.actor, redrive.why) == (
        {"code": "bad_prompt"},
        2.0,
        "admin:root",
        "the provider mended it",
    )
    assert LogEntry.objects.get().get_change_message().startswith("Begun: code bad_prompt, 2 a second")
    redrives.drive(redrive.pk)
    job.refresh_from_db()
    assert job.run == 2
    page = operator.page(redrive)
    assert "Replayed 1" in page
    assert "code bad_prompt" in operator.listed(Redrive)


def test_it_is_stopped_at_its_page(operator: Operator) -> None:
    factories.at("failed")
    begin(operator, **FORM, confirm="1")
    redrive = Redrive.objects.get()
    assert "To come 1" in operator.page(redrive)
    assert "stopped" in operator.effect("stop", redrive)
    assert "stopped after 0 replays" in operator.do("stop", redrive)
    redrive.refresh_from_db()
    assert (redrive.state, redrive.ended_by) == ("stopped", "admin:root")
    assert "it is stopped" in operator.effect("stop", redrive)


def test_what_is_to_come_is_no_more_than_its_most(operator: Operator) -> None:
    jobs = [factories.at("failed") for _ in range(4)]
    bound = "4 jobs, 40 credits, of which at most 3 run again"
    assert f"{bound}; it takes at least 2 s." in begin(operator, **FORM, most="3").content.decode()
    assert f"{bound.replace('jobs', 'jobs (code bad_prompt)')}; nothing" in shell(
        "--code=bad_prompt", "--most=3", "--dry-run"
    )
    begin(operator, **FORM, most="3", confirm="1")
    redrive = Redrive.objects.get()
    assert redrives.drive(redrive.pk) == 1
    page = operator.page(redrive)
    assert "To come 2 At the earliest done in 1 s" in page
    begin(operator, **FORM, most=str(len(jobs)), confirm="1")
    assert "To come 3 At the earliest done in 2 s" in operator.page(Redrive.objects.latest("id"))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"type": "clap"}, "there is no type named"),
        ({"rate": "0"}, "greater than or equal"),
        ({"reason": " "}, "required"),
    ],
)
def test_a_form_that_means_nothing_begins_nothing(operator: Operator, wrong: dict[str, str], why: str) -> None:
    assert why in begin(operator, **{**FORM, **wrong, "confirm": "1"}).content.decode()
    assert not Redrive.objects.exists()


def test_only_who_may_run_a_job_again_may_begin_one(onlooker: Callable[..., Operator]) -> None:
    factories.at("failed")
    looking = onlooker("view_job", "view_redrive")
    assert begin(looking, **FORM, confirm="1").status_code == 403
    assert "Redrive all of these" not in looking.listed(Job, only="dead_letters")
    looking.may("change_job")
    begin(looking, **FORM, confirm="1")
    assert Redrive.objects.count() == 1


def test_dead_letters_are_narrowed_and_what_is_meant_goes_along(operator: Operator) -> None:
    video = factories.make_job_type(factories.make_pool(name="video"), name="clip")
    other = factories.at("failed", video, factories.make_tenant(name="globex"))
    job_type = factories.make_job_type(factories.make_pool(name="speech"), name="talk")
    job = factories.at("assigned", job_type, factories.make_tenant(name="acme"))
    wanted = factories.end(job, FAILURE)

    def found(**query: str) -> set[Any]:
        page = operator.client.get(reverse("admin:jobs_job_changelist"), {"only": "dead_letters", **query})
        return {job.pk for job in page.context["cl"].result_list}

    assert found() == {other.pk, wanted.pk}
    for query in (
        {"code": "nsfw"},
        {"tenant": "acme"},
        {"type__id__exact": str(job_type.pk)},
        {"pool__id__exact": str(job_type.pool_id)},
    ):
        assert found(**query) == {wanted.pk}, query
    assert found(since="1h") == {other.pk, wanted.pk}
    assert found(until="1h") == set()
    assert found(until="never") == set()
    query = {"only": "dead_letters", "code": "nsfw", "type__id__exact": str(job_type.pk), "since": "2h"}
    page = operator.client.get(reverse("admin:jobs_job_changelist"), query).content.decode()
    address = re.search(r'href="([^"]*redrive/begin[^"]*)"', page)
    assert address is not None
    form = operator.client.get(address[1].replace("&amp;", "&")).content.decode()
    for value in ("nsfw", "talk", "2h"):
        assert f'value="{value}"' in form


@pytest.mark.parametrize("narrowed", [{"q": "acme"}, {"state": "failed"}, {"type__id__exact": "999"}, {"flagged": "1"}])
def test_what_a_redrive_cannot_be_narrowed_by_is_not_left_out(operator: Operator, narrowed: dict[str, str]) -> None:
    factories.at("failed", tenant=factories.make_tenant(name="acme"))
    query = {"only": "dead_letters", **narrowed}
    page = operator.client.get(reverse("admin:jobs_job_changelist"), query, follow=True)
    text = page.content.decode()
    assert "Redrive all of these" not in text
    if "flagged" not in narrowed:  # which is no filter of this list at all
        assert "A redrive cannot be narrowed by" in text


def test_a_page_that_began_one_redrive_does_not_begin_another(operator: Operator) -> None:
    for name in ("clip", "song"):
        factories.at("failed", factories.make_job_type(name=name))
    form = {"rate": "2", "reason": "the provider mended it", "token": "a" * 32, "confirm": "1"}
    begin(operator, **form, type="clip")
    said = begin(operator, **form, type="song").content.decode()
    assert "not begun: this page has begun redrive" in said
    assert "a" * 32 not in said, "sent once more it begins one"
    assert Redrive.objects.count() == 1


@pytest.mark.parametrize("error", [OSError, KeyError])
def test_a_user_without_a_name_is_a_shell(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def nobody() -> str:
        raise error("getpwuid(): uid not found: 1234")

    monkeypatch.setattr("getpass.getuser", nobody)
    factories.at("failed", factories.make_job_type())
    shell("--all", "--why=mended")
    assert Redrive.objects.get().actor == "shell"


def test_the_command_begins_lists_and_stops() -> None:
    job_type, tenant = factories.make_job_type(name="clip"), factories.make_tenant(name="acme")
    for _ in range(2):
        factories.at("failed", job_type, tenant)
    assert "2 clip of acme: bad_prompt, 20" in " ".join(shell("--code", "bad_prompt", "--dry-run").split())
    assert not Redrive.objects.exists()
    said = shell("--code", "bad_prompt", "--since", "1h", "--rate", "10/minute", "--why", "mended", "--most", "3")
    redrive = Redrive.objects.get()
    assert f"redrive {redrive.pk} begun" in said
    assert (redrive.filter["code"], redrive.most, redrive.why) == ("bad_prompt", 3, "mended")
    assert redrive.rate == pytest.approx(1 / 6)
    assert redrive.actor.startswith("shell")
    redrives.drive(redrive.pk)
    assert f"{redrive.pk} running: 1 replayed, 0 refused" in shell("--list")
    assert "stopped after 1 replays" in shell("--stop", str(redrive.pk))
    with pytest.raises(CommandError, match="is stopped"):
        shell("--stop", str(redrive.pk))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "say which dead letters"),
        (("--type", "clap"), "--type: there is no type named 'clap'"),
        (("--all", "--rate", "5"), "--rate: '5' is not a rate"),
        (("--all", "--rate", "many/s"), "--rate: 'many/s' is not a rate"),
        (("--all", "--rate", "500/s", "--why=w"), "at most 100 a second"),
        (("--all", "--rate", "nan/s", "--why=w"), "at most 100 a second"),
        (("--all", "--most", "0", "--why=w"), "at least one job"),
        (("--all",), "--why: say why"),
        (
            ("--code", "typo", "--why=w"),
            "fits (code typo), and nothing was begun; the codes of the dead letters that there are: bad_prompt (1)",
        ),
        (("--stop", "7"), "there is no such redrive"),
        (("--stop", "9" * 30), "there is no such redrive"),
        (("--all", "--most", "3000000000", "--why=w"), "--most: at least one job"),
        (("--all", "--rate", "9" * 400 + "/s", "--why=w"), "--rate: "),
        (("--all", "--rate", "1/hour", "--why=w"), "--rate: it is at least 0.001"),
        (("--since", "999999d"), "--since: '999999d' is no time"),
        (("--until", "0001-01-01T00:00:00+14:00"), "--until: "),
        (("--all", "--rate", f"1/{'9' * 400}s"), "is not a rate"),
    ],
)
def test_a_wrong_argument_begins_nothing(arguments: tuple[str, ...], why: str) -> None:
    factories.at("failed")
    with pytest.raises(CommandError, match=re.escape(why)):
        shell(*arguments)
    assert not Redrive.objects.exists()


def test_a_rate_may_be_below_one_a_second_and_why_is_asked_for_only_where_something_begins() -> None:
    assert "there are no dead letters" in shell("--all", "--dry-run")
    factories.at("failed")
    assert "0.3 a second" in shell("--all", "--rate", "0.3/s", "--why", "mended")
    assert "1 job (" in shell("--all", "--dry-run")
