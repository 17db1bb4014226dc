"""No secret is written out: API keys, headers and passwords are masked by form, this installation's own keys by value."""

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote, urlsplit

MASK = "***"
SHORTEST_SECRET = 8  # a shorter value would be cut out of innocent words

_SECRET_FIELDS = re.compile(r"authorization|credential|password|passwd|secret|token|api_?key|cookie", re.IGNORECASE)
_FORMS = (
    # The public id of an API key stays: it is what one looks for.
    (re.compile(r"\b(berth_[0-9A-Za-z]{12}_)[0-9A-Za-z]+"), rf"\1{MASK}"),
    # A header or a keyword with its value, as in a dictionary, a query or a request: to the end of the value.
    (
        re.compile(
            r"\b((?:proxy-)?authorization|(?:x-)?api[-_]?key|password|passwd|(?:\w+[-_])?secret(?:[-_]key)?"
            r"|(?:[\w]+[-_])*token|(?<=[?&])key)(\\?[\"']?\s*[:=]\s*)"
            r"(?:\\?\"[^\"\\]*|\\?'[^'\\]*|[^\s,;&)}\]]+(?: [^\s,;&)}\]\"']+)?)",
            re.IGNORECASE,
        ),
        rf"\1\2{MASK}",
    ),
    # All the pairs of a cookie header, to the end of its line or of the quotes around it.
    (re.compile(r"\b((?:set-)?cookie\\?[\"']?\s*[:=]\s*\\?[\"']?)[^\n\"'\\]+", re.IGNORECASE), rf"\1{MASK}"),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{16,}", re.IGNORECASE), rf"\1 {MASK}"),
    # The password of an address may have any sign in it but a blank: to the last @.
    (re.compile(r"(\w://[^/\s:@]*):[^\s]+@"), rf"\1:{MASK}@"),
    (re.compile(r"\bgAAAA[\w=-]{20,}"), MASK),  # what Fernet sealed
)


class Masker:
    """Masks texts and fields; `secrets` are values that are masked wherever they stand."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({secret for secret in secrets if len(secret) >= SHORTEST_SECRET}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(MASK, text)
        for form, masked in _FORMS:
            text = form.sub(masked, text)
        return text

    def field(self, name: str, value: Any) -> Any:
        """The value as it may be written out: numbers and nothing as they are, all else as a text."""
        if value is None or isinstance(value, bool | int | float):
            return value
        return MASK if _SECRET_FIELDS.search(name) and value else self.text(str(value))


def secrets_of(settings: Any) -> list[str]:
    """The secrets that the environment gave to this process."""
    pairs = [*settings.FIELD_KEYS.split(","), *settings.KEY_PEPPERS.split(",")]
    urls = [settings.DATABASE_URL, settings.REDIS_URL, settings.BROKER_URL]
    passwords = [password for url in urls if (password := urlsplit(url).password)]
    return [
        settings.SECRET_KEY,
        *settings.SECRET_KEY_FALLBACKS,
        *(pair.strip().partition(":")[2] for pair in pairs),
        *passwords,
        *map(unquote, passwords),
    ]
