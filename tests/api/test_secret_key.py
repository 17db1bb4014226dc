"""SECRET_KEY is replaced: what the key of before signed is taken while it stands in SECRET_KEY_FALLBACKS, and no longer."""

import json
import os
import subprocess
import sys
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings as real
from django.contrib.auth import get_user_model
from django.test import Client

from jobs import callbacks, calls
from jobs.api import pages
from jobs.api.refusals import Malformed
from tests import factories
from tests.api.conftest import Caller
from tests.api.test_files import CONTENT, bytes_of, sent
from tests.jobs.test_callbacks import DONE_BODY, REFERENCE, SAYS, tell

NEW, OTHER = "n" * 50, "o" * 50


@pytest.fixture(autouse=True)
def _public(settings: Any) -> None:
    settings.PUBLIC_URL = "https://berth.example"


def rotate(settings: Any) -> None:
    """Twice, so that there are two keys of before."""
    settings.SECRET_KEY_FALLBACKS = [OTHER, settings.SECRET_KEY]
    settings.SECRET_KEY = NEW


@pytest.mark.django_db
def test_callbacks_and_file_addresses_of_running_jobs_are_taken_while_the_old_key_is(
    caller: Caller, settings: Any
) -> None:
    upstream = {"mode": "callback", "submit": {"path": "'/run'"}, "callback": {**SAYS, **REFERENCE}}
    payload = {"image": {"file": sent(caller)}}
    job = factories.at("assigned", factories.make_job_type(upstream=upstream), caller.tenant, payload=payload)
    call = calls.call_of(factories.dispatch(job))
    path = call.payload["image"]["url"].removeprefix("https://berth.example")
    nobody = Caller(None, "")  # type: ignore[arg-type]
    rotate(settings)
    assert bytes_of(nobody.get(path)) == CONTENT
    known, settings.SECRET_KEY_FALLBACKS = settings.SECRET_KEY_FALLBACKS, []
    assert nobody.get(path).status_code == 401
    assert tell(call.callback_url, DONE_BODY) == 404
    settings.SECRET_KEY_FALLBACKS = known
    assert tell(call.callback_url, DONE_BODY) == 204
    flight = callbacks.addressed(*call.callback_url.split("/")[-2:])
    assert flight is not None
    settings.SECRET_KEY_FALLBACKS = []
    assert tell(callbacks.address(flight), DONE_BODY) == 204, "what is signed anew is signed by the new one"


def test_a_cursor_of_before_is_taken_while_the_old_key_is(settings: Any) -> None:
    job_id = uuid4()
    cursor = pages.cursor_after(job_id, 1, {})
    rotate(settings)
    assert pages.place_of(cursor, 1, {}) == job_id
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(Malformed):
        pages.place_of(cursor, 1, {})


@pytest.mark.django_db
def test_a_login_of_before_goes_on_while_the_old_key_is_taken(settings: Any) -> None:
    kept, lost = Client(), Client()
    user = get_user_model().objects.create_superuser("operator", password="word")
    for client in (kept, lost):
        client.force_login(user)
    rotate(settings)
    assert kept.get("/admin/").status_code == 200
    settings.SECRET_KEY_FALLBACKS = []
    assert kept.get("/admin/").status_code == 200, "it was signed anew when it was used"
    assert lost.get("/admin/").status_code == 302


def read(**env: str) -> Any:
    """Fallbacks and the name of the session's cookie, as a process reads them from its environment."""
    code = (
        "import json, broker_project.settings as s; print(json.dumps([s.SECRET_KEY_FALLBACKS, s.SESSION_COOKIE_NAME]))"
    )
    started = subprocess.run(
        [sys.executable, "-c", code], cwd=real.BASE_DIR, env={**os.environ, **env}, capture_output=True, check=True
    )
    return json.loads(started.stdout)


def test_the_environment_says_the_keys_of_before_and_cookies_keep_their_name_while_one_is_left() -> None:
    before = read(SECRET_KEY=OTHER)
    assert before[0] == read(SECRET_KEY=OTHER, SECRET_KEY_FALLBACKS=" , ")[0] == []
    assert read(SECRET_KEY=NEW, SECRET_KEY_FALLBACKS=f" middle, {OTHER},") == [["middle", OTHER], before[1]]
    assert read(SECRET_KEY=NEW)[1] != before[1]
