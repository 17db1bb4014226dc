"""No secret is written out, whichever way it comes: as an argument, a field, a header, a URL or an exception's words."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings

from broker_project import logs
from broker_project.masking import MASK, Masker, secrets_of
from tests.logs.test_lines import Written

CANARY = "c4n4ryC4N4RYc4n4ryC4N4RYc4n4ry12"
API_KEY = f"berth_abcdefghijkl_{CANARY}AAAAAA"
logger = logging.getLogger("tests.masking")


@pytest.fixture
def written() -> Iterator[list[str]]:
    handlers = [Written(form) for form in logs.FORMATS]
    for handler in handlers:
        logger.addHandler(handler)
    lines: list[str] = []
    yield lines
    for handler in handlers:
        logger.removeHandler(handler)
        lines += handler.lines
    assert len(lines) == 2
    assert CANARY not in "".join(lines), lines
    assert MASK in lines[0]


@pytest.mark.parametrize(
    "words",
    [
        f"key {API_KEY} refused",
        f"Authorization: Bearer {CANARY}",
        f"authorization: {CANARY}",
        f"sent {{'Authorization': 'Key {CANARY}', 'Accept': '*/*'}}",
        f'sent {{"authorization": "{CANARY}"}}',
        f'nested "{{\\"authorization\\": \\"Token {CANARY}\\"}}"',
        f"X-Api-Key={CANARY}&page=2",
        f"cookie: sessionid={CANARY}",
        f"postgres://berth:{CANARY}@db.example:5432/berth does not answer",
        f"password={CANARY} host=db.example",
        f"a header Bearer {CANARY} was refused",
        f"token={CANARY}&page=2",
        f"X-Auth-Token: {CANARY}",
        f"secret: {CANARY}",
        f"GET /poll?key={CANARY} was refused",
        f"Cookie: csrftoken=abc; sessionid={CANARY}",
        f"https://user:p@ss/{CANARY}@host.example/path does not answer",
    ],
)
@pytest.mark.usefixtures("written")
def test_a_secret_in_a_message_is_masked(words: str) -> None:
    logger.warning("upstream said: %s", words)


@pytest.mark.usefixtures("written")
def test_a_secret_in_an_exception_is_masked() -> None:
    try:
        raise ValueError(f"Authorization: Bearer {CANARY}")
    except ValueError as error:
        try:
            raise RuntimeError(f"refused with {API_KEY}") from error
        except RuntimeError:
            logger.exception("not sent")


def test_a_field_that_is_named_after_a_secret_is_masked_whole() -> None:
    masker = Masker()
    for name in ("credential", "password", "api_key", "Authorization", "session_token"):
        assert masker.field(name, CANARY) == MASK
    assert masker.field("job", "0190-ab") == "0190-ab"
    assert masker.field("code", 7) == 7


def test_the_keys_of_this_installation_are_masked_wherever_they_stand() -> None:
    masker = Masker(secrets_of(settings))
    for secret in (settings.SECRET_KEY, settings.FIELD_KEYS.partition(":")[2], settings.KEY_PEPPERS.partition(":")[2]):
        assert masker.text(f"who wrote {secret}?") == f"who wrote {MASK}?"
    assert settings.DATABASES["default"]["PASSWORD"] not in masker.text(f"cannot use {settings.DATABASE_URL}")


def test_a_key_of_before_is_masked_too(settings: Any) -> None:
    settings.SECRET_KEY_FALLBACKS = [CANARY]
    assert CANARY not in Masker(secrets_of(settings)).text(f"who wrote {CANARY}?")


def test_a_sealed_credential_is_masked() -> None:
    from pool.secrets import seal

    sealed = seal(CANARY, "here")
    assert Masker().text(f"cannot open {sealed}") == f"cannot open k1:{MASK}"


@pytest.mark.parametrize(
    "words",
    [
        "the secret at pool_upstreamaccount.credential:1/acct-001 does not open with key 'k1'",
        "upstream@some-host ready.",
        "job 0190c5d2-7b1e-7e0c-8a4e-2f6f3c1d9a10 failed for good: outcome_unknown",
        "wake-up of assign lost, the sweep will do it: Error 111 connecting to 127.0.0.1:6379. Connection refused.",
        "basic checks passed; the bearer of this line is fine",
    ],
)
def test_what_is_no_secret_is_left_as_it_is(words: str) -> None:
    assert Masker(secrets_of(settings)).text(words) == words


def test_the_public_part_of_a_key_is_what_one_looks_for() -> None:
    said: Any = json.loads(Written("json").format(logging.makeLogRecord({"msg": API_KEY, "levelname": "INFO"})))
    assert said["event"] == f"berth_abcdefghijkl_{MASK}"
