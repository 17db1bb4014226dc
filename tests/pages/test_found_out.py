"""A job that is being found out, an account that is refused, and what they leave behind, at a real screen."""

from dataclasses import replace
from typing import Any

import pytest

from broker_project.control import live_page
from pool import transitions
from tests import factories
from tests.factories import CUT, attempt_of, session_of
from tests.jobs.health_world import World
from tests.jobs.test_asking import FIND, RUNNING, accepted, ask, poll_type, sent
from tests.pages.conftest import Operator

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
# Words that are broken in two: after a hyphen or a slash they may be.
BROKEN = """cells => cells.filter(cell => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), range = document.createRange();
  while (texts.nextNode()) for (const found of texts.currentNode.data.matchAll(/[^\\s\\/-]+/g)) {
    if (found[0].length > 30) continue;
    range.setStart(texts.currentNode, found.index);
    range.setEnd(texts.currentNode, found.index + found[0].length);
    if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) return true;
  }
  return false;
}).map(cell => cell.textContent)"""


@pytest.fixture(autouse=True)
def _numbers_are_counted_anew() -> None:
    live_page.recent.forget()


def no_word_is_broken(operator: Operator) -> None:
    cells = operator.page.locator(".berth-table td")
    assert cells.count() > 0
    assert cells.evaluate_all(BROKEN) == []


def opened(operator: Operator, row: Any) -> None:
    names = row._meta
    operator.page.goto(f"{operator.address}/admin/{names.app_label}/{names.model_name}/{row.pk}/change/")


def test_a_job_that_is_being_found_out_says_so_from_the_live_page_on(operator: Operator) -> None:
    pool = factories.make_pool(name="video", sessions=3)
    job, flight = sent(poll_type(pool, idempotent=True, name="clip"))
    factories.learn(flight, replace(CUT, error_message="the connection was cut while the answer was awaited"))
    running = accepted(poll_type(pool, name="film"))
    factories.learn(ask(running), RUNNING)
    operator.log_in()
    operator.page.locator("a.berth-figure", has_text="outcome unknown").click()
    operator.page.wait_for_load_state()
    assert "only=unknown" in operator.page.url
    operator.sees("outcome unknown (connection_lost): sent again")
    operator.looks("unknown-list")
    operator.page.locator(f"a[href*='{job.pk}']").locator("visible=true").first.click()
    operator.sees("By sending the same key again")
    operator.sees("Nothing: waiting suffices.")
    no_word_is_broken(operator)
    operator.looks("unknown-job")
    operator.press("Decide the outcome")
    operator.sees("Waiting suffices where the upstream can still be asked")
    operator.page.fill("#id_reason", "their list")
    operator.press("Show the effect")
    operator.sees("If you only wait:")
    no_word_is_broken(operator)
    operator.looks("decide-effect")
    opened(operator, running)
    operator.sees("50% done")
    no_word_is_broken(operator)


def test_a_refused_account_is_told_on_the_live_page_and_mended_from_its_own(operator: Operator) -> None:
    world = World(accounts=3, sessions_each=4, name="video")
    world.take_offline(0)
    world.run(1, replace(factories.BUSY, error_code="http_429", error_message="slow down"))
    operator.log_in()
    operator.sees("4 offline: refused by the upstream: http_401: unknown key")
    operator.sees("sessions in use")
    operator.looks("live-refused")
    operator.sees("3 cooldown: the upstream asked for a rest: http_429: slow down")
    operator.page.locator(".berth-account a", has_text="acct-001").first.click()
    operator.page.wait_for_load_state()
    operator.sees("4 offline: refused by the upstream (http_401)")
    operator.sees("Apply a file with a credential that works")
    no_word_is_broken(operator)
    operator.looks("account-refused")
    operator.press("Enable")
    operator.sees("is still the same: it is refused again unless it works now")
    operator.looks("enable-refused")
    operator.choose("Accounts")
    operator.sees("4 offline: refused by the upstream (http_401)")
    operator.looks("accounts")


def test_many_accounts_have_their_reasons_below_the_grid(operator: Operator) -> None:
    pool = factories.make_pool(name="video", accounts=14, sessions=2)
    for account in pool.accounts.order_by("id")[:10]:
        sessions = list(account.resources.values_list("pk", flat=True))
        transitions.disable(sessions, f"returned {account.name} (admin:root)")
    operator.log_in()
    operator.sees("2 offline: returned acct-001 (admin:root)")
    operator.sees("and 2 more accounts")
    operator.looks("live-many")


def test_evidence_is_readable_and_no_short_word_is_broken(operator: Operator) -> None:
    job, flight = sent(poll_type(find=FIND))
    factories.learn(flight, replace(CUT, status=502, error_message="upstream prematurely closed the connection " * 3))
    factories.learn(ask(job, 3), RUNNING)
    operator.log_in()
    opened(operator, attempt_of(job))
    operator.sees("verdict: unknown")
    no_word_is_broken(operator)
    operator.looks("attempt")
    opened(operator, session_of(job))
    no_word_is_broken(operator)
