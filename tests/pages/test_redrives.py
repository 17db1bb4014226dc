"""Dead letters are narrowed, shown, run again together and stopped, with the pages alone."""

import pytest

from jobs import redrives, transitions
from jobs.models import Redrive
from tests import factories
from tests.factories import FAILURE, REJECTED
from tests.pages.conftest import Operator

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


def test_dead_letters_of_one_code_run_again_until_it_is_stopped(operator: Operator) -> None:
    job_type = factories.make_job_type(factories.make_pool(name="video"), name="clip")
    acme, globex = factories.make_tenant(name="acme"), factories.make_tenant(name="globex", credits=10)
    for tenant, outcome in [(acme, FAILURE), (acme, FAILURE), (globex, FAILURE), (globex, FAILURE), (acme, REJECTED)]:
        job = factories.submit(tenant, job_type)
        assert transitions.assign(job_type.pool_id) == 1
        factories.end(job, outcome)

    operator.log_in()
    operator.choose("Dead letters")
    operator.sees("bad_prompt")
    operator.looks("dead-letters-all")
    operator.page.goto(f"{operator.page.url}&code=nsfw&since=1h")
    assert operator.page.get_by_text("bad_prompt").locator("visible=true").count() == 0
    operator.looks("dead-letters-narrowed")
    operator.page.get_by_text("Filters").locator("visible=true").first.click()
    operator.sees("By error code of dead letters")
    operator.looks("dead-letters-filters")
    operator.page.keyboard.press("Escape")
    operator.page.reload()
    operator.press("Redrive all of these")
    assert operator.page.input_value("#id_code") == "nsfw"
    operator.page.fill("#id_rate", "50")
    operator.page.fill("#id_reason", "the provider mended its filter")
    operator.looks("redrive-form")
    operator.press("Show the effect")
    operator.sees("4 jobs, 40 credits")
    operator.looks("redrive-effect")
    operator.press("Begin the redrive")
    operator.sees("To come")
    redrive = Redrive.objects.get()
    redrives._replay(redrive.pk, redrives.dead_letters.next_of({"code": "nsfw"}, None, None, redrive.began_at)[0])
    operator.page.reload()
    operator.sees("Replayed")
    operator.looks("redrive")
    operator.page.get_by_role("heading", name="Progress").scroll_into_view_if_needed()
    operator.page.mouse.wheel(0, 2_000)
    operator.looks("redrive-progress")
    operator.press("Stop")
    operator.sees("No further job runs again by it")
    operator.looks("redrive-stop")
    operator.press("Stop")
    operator.sees("stopped after 1 replay")
    operator.choose("Redrives")
    operator.sees("code nsfw")
    operator.looks("redrives")
    redrive.refresh_from_db()
    assert (redrive.state, redrive.replayed) == ("stopped", 1)
