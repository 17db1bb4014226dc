"""What went wrong, as code and text: as upstreams write it, bounded, in one line, without the account's credential."""

import re
from collections.abc import Iterator
from typing import Any, Final, Literal
from urllib.parse import quote

from upstream.answer import Answer
from upstream.calls import Call
from upstream.expressions import Expression
from upstream.reading import Reader

MAX_ERROR_LENGTH: Final = 300
MAX_CODE_LENGTH: Final = 50  # what an attempt keeps of it

NoAnswer = Literal["connect_failed", "timeout", "cut", "unreadable_answer", "answer_too_large"]
NO_ANSWER: Final[dict[NoAnswer, str]] = {
    "connect_failed": "the upstream could not be reached",
    "timeout": "no answer in time",
    "cut": "the connection was cut before the answer was complete",
    "unreadable_answer": "what came back is not HTTP",
    "answer_too_large": "the answer is larger than is read",
}
_FILE_TOKEN = re.compile(r"([?&]token=)[\w.~-]+")


def code_and_text(
    answer: Answer, error: Expression | None, reader: Reader, unclear: bool, means: str = "failed"
) -> tuple[str, str]:
    """What the answer says went wrong: by the expression `error`, else as upstreams write it; else by its status.

    `unclear`: nobody knows what the answer means; where its status says no error, then why it could not be read comes first.
    `means`: else the code of a 2xx that names none, as its status tells nothing of what went wrong.
    """
    puzzling = unclear and 200 <= answer.status < 300
    if puzzling and not answer.readable:
        return "unreadable_answer", "the answer promises JSON that cannot be read"
    if puzzling and reader.problem:
        return "mapping_error", reader.problem
    # A `code` or `type` of an answer that is no error body names the work, not what is wrong with it.
    told = answer.body if not puzzling or has_error(answer.body) else None
    code, message = said(told if error is None else Reader(reader.scope).value(error))
    if puzzling:
        return code or "unknown_answer", message or "no declared expression says what this answer means"
    usual = means if 200 <= answer.status < 300 else f"http_{answer.status}"
    return code or usual, message or f"the upstream answered {answer.status}"


def has_error(body: Any) -> bool:
    """Whether this is an error body: a map whose `error` or `errors` holds something."""
    return isinstance(body, dict) and bool(body.get("error") or body.get("errors"))


def said(value: Any) -> tuple[str, str]:
    """Code and text of an error as upstreams write it: a text, or a map of message and code, or that under `error`."""
    if isinstance(value, list):
        return said(value[0]) if value and isinstance(value[0], str | dict) else ("", "")
    if isinstance(value, dict):
        inner = next(
            (value[name] for name in ("error", "errors", "detail") if isinstance(value.get(name), dict | list)), None
        )
        if inner:
            return said(inner)
        code = value.get("code", value.get("type", ""))
        texts = (value.get(name) for name in ("message", "msg", "error", "detail", "title", "error_message"))
        return (str(code).strip() if isinstance(code, str | int) else ""), next((t for t in map(_text, texts) if t), "")
    return "", _text(value)


def _text(value: Any) -> str:
    """Blanks alone say nothing."""
    return value.strip() if isinstance(value, str) else ""


def redacted(text: str, call: Call, length: int) -> str:
    """The text without the account's credential and the keys in our own addresses, in one line, bounded."""
    if not text:
        return ""
    text = text[: 100 * length]
    own = call.callback_url.rpartition("/")[2]
    for secret in sorted(_secrets([call.account.get("credential"), own]), key=len, reverse=True):
        text = text.replace(secret, "***").replace(quote(secret, safe=""), "***")
    text = _FILE_TOKEN.sub(r"\1***", text)
    return re.sub(r"\s+", " ", text).strip().replace("\x00", "\ufffd")[:length]


def _secrets(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _secrets(item)
