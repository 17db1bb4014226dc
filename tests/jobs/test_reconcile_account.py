"""`manage.py reconcile_account`: how tracked accounts stand, readings taken and doubted, and how it ends."""

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from credits import upstream_accounts
from credits.models import Reading
from jobs import balances
from jobs.queries.balances import standing
from pool.models import Pool
from statemachine.actors import at_the_shell
from tests.factories import MICRO, make_pool, make_tracked_pool
from tests.upstream.conftest import provider  # noqa: F401  a fixture
from tests.upstream.provider import Provider, answer_json

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def video() -> Pool:
    return make_tracked_pool(100, 50, name="video")


def run(*arguments: str) -> None:
    call_command("reconcile_account", *arguments)


def left() -> list[float]:
    return [row["posted"] / MICRO for row in standing()]


def test_tracked_accounts_are_listed(video: Pool, capsys: pytest.CaptureFixture[str]) -> None:
    make_pool(name="plain")
    run("video/acct-001", "--reading", "97.5")
    capsys.readouterr()
    run()
    assert capsys.readouterr().out.splitlines() == [
        "✓ video/acct-001: 97.5 posted, 0 held, 97.5 available, 0 spent, -2.5 drift",
        "    read 0:00:00 ago: 97.5, -2.5 off, booked",
        "✓ video/acct-002: 50 posted, 0 held, 50 available, 0 spent, 0 drift",
        "    never read",
    ]


def test_without_any_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    make_pool()
    run()
    assert "no account is tracked" in capsys.readouterr().out


def test_a_reading_that_is_far_off_is_an_alarm_until_a_better_one(
    video: Pool, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (("video/acct-001", "--reading", "0"), ()):
        with pytest.raises(CommandError, match="needs a look"):
            run(*arguments)
        said = capsys.readouterr().out
        assert "✗ video/acct-001: 100 posted" in said
        assert "NOT booked" in said
    run("video/acct-001", "--reading", "99")
    run()
    assert left() == [99, 50]


def test_one_that_is_known_to_be_true_is_booked_on_demand(video: Pool) -> None:
    run("video/acct-001", "--reading", "-3", "--book")
    assert left() == [-3, 50]
    run()


def test_a_reading_that_was_booked_is_accepted_and_one_that_was_not_says_what_to_do(
    video: Pool, capsys: pytest.CaptureFixture[str]
) -> None:
    account = video.accounts.order_by("id")[0]
    with pytest.raises(CommandError):
        run("video/acct-001", "--reading", "900")
    assert "were credits bought: book the top-up and read again; else --reading" in capsys.readouterr().out
    upstream_accounts.top_up(video.pk, account.pk, 800 * MICRO, "invoice 3")
    with pytest.raises(CommandError):
        run()
    said = capsys.readouterr().out
    assert "something was booked on the account since: this reading is older than that, read again" in said
    assert "--book" not in said
    run("video/acct-001", "--reading", "900")
    run("video/acct-001", "--reading", "5", "--book")
    run()
    assert "✗" not in capsys.readouterr().out
    assert left() == [5, 50]


@pytest.mark.parametrize(("most", "booked"), [("10", True), ("9.9", False), ("0", False)])
def test_how_far_off_it_may_be_can_be_said(video: Pool, most: str, booked: bool) -> None:
    take = ("video/acct-001", "--reading", "90", "--most", most)
    if booked:
        run(*take)
    else:
        with pytest.raises(CommandError, match="needs a look"):
            run(*take)
    assert left() == [90 if booked else 100, 50]


def test_the_same_key_books_once(video: Pool) -> None:
    for _ in range(2):
        run("video/acct-001", "--reading", "95", "--key", "mail-7")
    with pytest.raises(CommandError, match="--key: mail-7 was used for a reading of 95"):
        run("video/acct-001", "--reading", "94", "--key", "mail-7")
    assert (left(), Reading.objects.count()) == ([95, 50], 1)


def test_a_key_that_was_not_booked_is_not_booked_later(video: Pool) -> None:
    with pytest.raises(CommandError):
        run("video/acct-001", "--reading", "5", "--key", "mail-7")
    with pytest.raises(CommandError, match="take another key"):
        run("video/acct-001", "--reading", "5", "--key", "mail-7", "--book")
    assert left() == [100, 50]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("video/acct-9",), "video/acct-9: there is no such account"),
        (("plain/acct-001",), "plain/acct-001: its credits are not tracked"),
        (("--reading", "5"), "--reading: is of exactly one POOL/ACCOUNT"),
        (("video/acct-001", "video/acct-002", "--reading", "5"), "--reading: is of exactly one"),
        (("video/acct-001", "--reading", "many"), "--reading: 'many' is no number of credits"),
        (("video/acct-001", "--reading", "NaN"), "--reading: 'NaN' is no number"),
        (("video/acct-001", "--reading", "1e10"), "--reading: '1e10' is no number"),
        (("video/acct-001", "--reading", "5", "--most", "-1"), "--most: -1 is below 0"),
        (("video/acct-001", "--key", "k"), "--key: is the key of a --reading"),
        (("--most", "5"), "--most: bounds a --reading, or what --ask finds"),
        (("--book",), "--book: books a --reading"),
        (("video/acct-001", "--reading", "5", "--ask"), "--ask: the provider is asked, or"),
        (("video/acct-001", "--ask"), "--ask: the pool of video/acct-001 does not say how"),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_is_read(video: Pool, arguments: tuple[str, ...], said: str) -> None:
    make_pool(name="plain")
    with pytest.raises(CommandError, match=said.replace("(", "\\(")):
        run(*arguments)
    assert Reading.objects.count() == 0


def test_it_is_printed_for_programs(video: Pool, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError):
        run("video/acct-001", "--reading", "0", "--json")
    said = json.loads(capsys.readouterr().out)
    assert said["alarms"] == 1
    [account] = said["accounts"]
    amounts = {name: account[name] for name in ("account", "posted", "held", "available", "spent", "drift", "alarm")}
    assert amounts == {
        "account": "video/acct-001", "posted": "100.000000", "held": "0.000000", "available": "100.000000",
        "spent": "0.000000", "drift": "0.000000", "alarm": True,
    }  # fmt: skip
    assert (account["reading"]["said"], account["reading"]["booked"]) == ("0.000000", False)
    assert account["reading"]["outdated"] is False


def test_providers_are_asked_on_demand(
    video: Pool,
    provider: Provider,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_tracked_pool(7, name="mute")
    ask_at(video, provider.url)
    provider.answer = answer_json({"left": 49})
    with pytest.raises(CommandError, match="1 of 3 accounts needs a look"):
        run("--ask")
    said = capsys.readouterr().out
    assert "video/acct-001: the provider says 49, the ledger 100 to 100: -51 off, NOT booked: too far off" in said
    assert "video/acct-002: the provider says 49, the ledger 50 to 50: -1 off, booked as drift" in said
    assert left() == [7, 100, 49]


def test_accounts_that_nobody_can_be_asked_about_are_named(
    video: Pool,
    provider: Provider,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_tracked_pool(7, name="mute")
    with pytest.raises(
        CommandError, match=r"nobody can be asked; 3 accounts of .*, which have no `balance` that says how"
    ):
        run("--ask")
    ask_at(video, provider.url)
    provider.answer = answer_json({"left": 99})
    run("video/acct-001", "--ask")
    assert "not asked" not in capsys.readouterr().out
    with pytest.raises(CommandError):  # the other account is far off
        run("--ask")
    assert capsys.readouterr().out.startswith("not asked: 1 account of mute, which has no `balance` that says how\n")
    with pytest.raises(CommandError):
        run("--ask", "--json")
    asked = {each["account"]: each["asked"] for each in json.loads(capsys.readouterr().out)["accounts"]}
    assert asked == {"mute/acct-001": False, "video/acct-001": True, "video/acct-002": True}


def test_a_reading_says_who_took_it_unless_it_was_given_a_key(video: Pool) -> None:
    for key in ((), ("--key", "mail-7")):
        run("video/acct-001", "--reading", "99", *key)
    first, second = Reading.objects.order_by("id").values_list("key", flat=True)
    assert (first.startswith(f"{at_the_shell()}:"), second) == (True, "operator:mail-7")


def test_a_provider_that_says_nothing_is_told_of(
    video: Pool,
    provider: Provider,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    ask_at(video, provider.url)
    provider.answer = answer_json({"error": "who are you"})
    with pytest.raises(CommandError, match="1 of 1 account needs a look"):
        run("video/acct-001", "--ask")
    assert "asked now, no reading: the answer has no balance" in capsys.readouterr().out
    assert Reading.objects.count() == 0


def test_the_alarm_of_the_pool_counts_where_it_says_one() -> None:
    account: dict[str, Any] = {"most": None}
    assert balances.alarm(account, 1000 * MICRO) == 200 * MICRO
    assert balances.alarm(account, MICRO) == 10 * MICRO
    assert balances.alarm({"most": 3}, 1000 * MICRO) == 3


def ask_at(pool: Pool, url: str) -> None:
    balance = {"path": "'/left'", "value": "response.body.left", "every_ms": 900_000, "most": None}
    Pool.objects.filter(pk=pool.pk).update(upstream={"adapter": "http", "base_url": url, "balance": balance})
