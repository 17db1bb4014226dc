"""The fields of calls: how a request is made, what its answer means. The names are a contract, as those of schema.py."""

from typing import Final

from broker_project.config.kinds import (
    Field,
    choice,
    duration,
    expression,
    flag,
    header_over,
    list_of,
    map_of,
    number,
    size,
    value_of,
    whole,
)
from upstream.balances import ACCOUNT_NAMES
from upstream.expressions import (
    FOLLOW_NAMES,
    FOLLOW_RESPONSE_NAMES,
    PROBE_NAMES,
    RESPONSE_NAMES,
    SUBMIT_NAMES,
)
from upstream.result_files import host, path_prefix
from upstream.spec import MAX_TIMEOUT_MS

MOST_RESULT_FILE_BYTES: Final = 100_000_000_000
LONGEST_ASKING_MS: Final = 25_000  # for a balance: all of one round share half a minute
_TIMEOUT = Field(duration(1, MAX_TIMEOUT_MS))


def request(names: frozenset[str]) -> dict[str, Field]:
    """How a call is made."""
    return {
        "method": Field(choice("GET", "POST", "PUT", "PATCH", "DELETE")),
        "path": Field(expression(names, in_path=True)),
        "headers": Field(map_of(header_over(names), check_name=False), {}),
        "body": Field(expression(names)),
        "timeout": _TIMEOUT,
    }


def answers(names: frozenset[str], *meanings: str) -> dict[str, Field]:
    """What an answer means, an expression for each."""
    return {meaning: Field(expression(names)) for meaning in meanings}


SUBMIT = {
    **request(SUBMIT_NAMES),
    "idempotent": Field(value_of(flag)),
    **answers(RESPONSE_NAMES, "success", "partial", "failed", "exists", "rejected", "busy", "auth", "not_executed"),
    **answers(RESPONSE_NAMES, "result", "units", "cost", "error", "reference"),
}
POLL = {
    **request(FOLLOW_NAMES),
    "every": Field(duration(100)),
    "fallback": Field(duration(100)),
    **answers(FOLLOW_RESPONSE_NAMES, "running", "success", "partial", "failed"),
    **answers(FOLLOW_RESPONSE_NAMES, "progress", "result", "units", "cost", "error"),
}
CANCEL = {**request(FOLLOW_NAMES), **answers(FOLLOW_RESPONSE_NAMES, "success")}
FIND = {
    **request(FOLLOW_NAMES),
    "after": Field(duration()),
    "every": Field(duration(100)),
    **answers(FOLLOW_RESPONSE_NAMES, "missing", "running", "success", "partial", "failed"),
    **answers(FOLLOW_RESPONSE_NAMES, "progress", "result", "units", "cost", "error", "reference"),
}
CALLBACK = {
    "confirm": Field(value_of(flag)),
    **answers(FOLLOW_RESPONSE_NAMES, "running", "success", "partial", "failed"),
    **answers(FOLLOW_RESPONSE_NAMES, "progress", "result", "units", "cost", "error", "reference"),
}
RESULT_FILES = {
    "urls": Field(expression(FOLLOW_RESPONSE_NAMES), required="where the links stand in the answer"),
    "hosts": Field(list_of(value_of(host)), []),
    "auth": Field(value_of(flag), False),
    "paths": Field(list_of(value_of(path_prefix)), []),
    "max": Field(size(MOST_RESULT_FILE_BYTES), 100_000_000),
    "timeout": Field(duration(1, 3_600_000), 60_000),
}
CLEANUP = {
    **request(SUBMIT_NAMES),
    **answers(RESPONSE_NAMES, "success"),
    "tries": Field(whole(1, 100), 3),
}
PROBE = {
    **request(ACCOUNT_NAMES),
    "every": Field(duration(1000), required="how often an idle account is probed"),
    **answers(PROBE_NAMES, "healthy"),
}
BALANCE = {
    **request(ACCOUNT_NAMES),
    "path": Field(expression(ACCOUNT_NAMES, in_path=True), required="where the balance is asked for"),
    "timeout": Field(duration(1, LONGEST_ASKING_MS)),
    "value": Field(expression(PROBE_NAMES), required="the number of credits, CEL over account and response"),
    "every": Field(duration(60_000), 900_000),
    "most": Field(number()),
}
