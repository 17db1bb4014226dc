"""Every field of the file: its kind, its default, whether its work comes later. The names are a contract."""

from typing import Any, Final

from broker_project.config.findings import Findings, Place
from broker_project.config.json_schema import json_schema
from broker_project.config.kinds import (
    Field,
    Kind,
    adapter_name,
    anything,
    base_url,
    choice,
    duration,
    expression,
    flag,
    header_over,
    list_of,
    map_of,
    number,
    preset_name,
    rate_limit,
    size,
    table,
    text,
    value_of,
    whole,
)
from broker_project.config.schema_calls import (
    BALANCE,
    CALLBACK,
    CANCEL,
    CLEANUP,
    FIND,
    POLL,
    PROBE,
    RESULT_FILES,
    SUBMIT,
)
from broker_project.config.secrets import credential
from credits.errors import PriceError
from credits.pricing import to_micro
from upstream.balances import ACCOUNT_NAMES
from upstream.expressions import (
    PRICE_NAMES,
    REQUIRES_NAMES,
    SETTLE_NAMES,
    SUBMIT_NAMES,
    TENANT_PRICE_NAMES,
    ExpressionError,
    compile_expression,
)

MOST_SESSIONS: Final = 10_000  # of one account
MOST_PAYLOAD_BYTES: Final = 100_000_000
MOST_FILE_BYTES: Final = 1_000_000_000_000_000  # of one tenant
LONGEST_COOLDOWN_MS: Final = 24 * 86_400_000
NO_NAMES: Final[frozenset[str]] = frozenset()


def later(kind: Kind, default: Any = None) -> Field:
    """A field that is checked, and whose work comes later."""
    return Field(kind, default, later=True)


def amount_or_expression(names: frozenset[str], *, above: bool = False, words: tuple[str, ...] = ()) -> Kind:
    """A number, an expression, or one of `words`; kept as text."""
    written_out, plain = expression(names), number(above=above)

    def read(value: Any, place: Place, findings: Findings) -> str | None:
        if isinstance(value, int | float):
            return None if plain(value, place, findings) is None else str(value)
        found: str | None = value if value in words else written_out(value, place, findings)
        return found

    return read


def price(value: Any, place: Place, findings: Findings) -> str | None:
    """An amount of credits; one that depends on nothing is tried out now."""
    found: str | None = amount_or_expression(PRICE_NAMES)(value, place, findings)
    try:
        constant = compile_expression(found or "payload", NO_NAMES)
    except ExpressionError:
        return found  # it depends on the job
    try:
        to_micro(constant.evaluate({}))
    except (PriceError, ExpressionError) as error:
        findings.error(place, str(error))
    return found


ACCOUNT = {
    "sessions": Field(whole(0, MOST_SESSIONS), 1),
    "credential": Field(credential),
    "refresh": Field(
        table(
            {
                "url": Field(value_of(base_url), required="where a new token is asked for"),
                "body": Field(expression(ACCOUNT_NAMES)),
                "every": Field(duration(1000), required="how long a token lasts"),
            }
        )
    ),
    "base_url": Field(value_of(base_url), ""),
    "vars": Field(map_of(anything), {}),
    "credits": Field(number()),
    "rate_limit": later(value_of(rate_limit)),
    "rates": later(
        map_of(
            table(
                {
                    "limit": Field(value_of(rate_limit), required="as 90000/minute"),
                    "cost": Field(amount_or_expression(PRICE_NAMES), "1"),
                }
            )
        ),
        {},
    ),
    "windows": later(
        map_of(
            table(
                {
                    "limit": Field(number(), required="how much one window allows"),
                    "cost": Field(amount_or_expression(PRICE_NAMES), "1"),
                    "per": Field(duration(1000)),
                }
            )
        ),
        {},
    ),
    "labels": Field(map_of(anything), {}),
    "strangers": later(whole(0, MOST_SESSIONS), 0),
}

POOL = {
    "order": Field(choice("fair", "fifo"), "fair"),
    "priority": later(choice("tenant", "pool"), "tenant"),
    "cooldown": Field(duration(0, LONGEST_COOLDOWN_MS), 0),
    "window": Field(whole(1, 1_000_000), 10),
    "max_pending": later(whole()),
    "rate_limit": later(value_of(rate_limit)),
    "poll_rate": Field(value_of(rate_limit)),
    "breaker": Field(
        table(
            {
                "failures": Field(whole(1), 5),
                "quarantine": Field(duration(1), 30_000),
                "max": Field(duration(1), 1_800_000),
            }
        )
    ),
    "cleanup": later(table(CLEANUP)),
    "probe": later(table(PROBE)),
    "balance": Field(table(BALANCE)),
    "upstream": Field(
        table(
            {
                "adapter": Field(value_of(adapter_name), "http"),
                "preset": Field(value_of(preset_name)),
                "base_url": Field(value_of(base_url), ""),
                "headers": Field(map_of(header_over(SUBMIT_NAMES), check_name=False), {}),
            }
        ),
        required="where the upstream is, at least its base_url",
    ),
    "accounts": Field(map_of(table(ACCOUNT)), {}),
}

JOB_TYPE = {
    "pool": Field(value_of(text)),
    "pools": Field(list_of(value_of(text)), []),
    "spill_after": later(duration()),
    "requires": Field(map_of(amount_or_expression(REQUIRES_NAMES)), {}),
    "sessions": Field(whole(1, MOST_SESSIONS), 1),
    "weight": Field(amount_or_expression(PRICE_NAMES, above=True, words=("auto",)), "1"),
    "price": Field(price, required='what a job costs, an expression such as "10 + 2 * payload.seconds"'),
    "settle": Field(amount_or_expression(SETTLE_NAMES), ""),
    "overrun": Field(choice("absorb", "debt"), "absorb"),
    "cost": Field(price, ""),
    "payload_schema": Field(json_schema, {}),
    "max_payload": Field(size(MOST_PAYLOAD_BYTES), 256_000),
    "start_deadline": Field(duration(1)),
    "max_runtime": Field(duration(1), required="the upstream certainly ends a session within this"),
    "delivery": Field(choice("at_most_once", "at_least_once"), "at_most_once"),
    "accept_repeats": Field(value_of(flag), False),
    "retry": Field(
        table(
            {
                "attempts": Field(whole(1, 1000)),
                "first": Field(duration()),
                "factor": Field(number(1, 1000)),
                "max": Field(duration()),
                "jitter": Field(choice("full"), "full"),
                "within": Field(duration(1)),
            }
        ),
        {},
    ),
    "upstream": Field(
        table(
            {
                "mode": Field(choice("sync", "poll", "callback", "lease")),
                "files": Field(choice("object", "url")),
                "submit": Field(table(SUBMIT)),
                "poll": Field(table(POLL)),
                "find": Field(table(FIND)),
                "cancel": Field(table(CANCEL)),
                "callback": Field(table(CALLBACK)),
                "result_files": Field(table(RESULT_FILES)),
            }
        ),
        required="how a job is sent, at least submit.path",
    ),
}

BUDGETS = table({"day": Field(number()), "month": Field(number())})

TENANT = {
    "share": Field(number(above=True), 1.0),
    "credits": Field(number()),
    "billing": Field(choice("credits", "none"), "credits"),
    "max_running": Field(whole()),
    "guaranteed": later(whole(), 0),
    "max_pending": later(whole()),
    "max_priority": Field(whole(-1000, 1000), 100),
    "submit_rate": later(value_of(rate_limit)),
    "budgets": Field(BUDGETS),
    "low_credits": Field(
        table(
            {
                "below": Field(
                    number(above=True), required="with fewer credits available the tenant is told, and paced"
                ),
                "submit_rate": Field(value_of(rate_limit), [1, 1000]),
            }
        )
    ),
    "job_types": Field(list_of(value_of(text))),
    "prices": Field(map_of(amount_or_expression(TENANT_PRICE_NAMES)), {}),
    "pools": Field(
        map_of(table({"max_running": Field(whole()), "guaranteed": later(whole(), 0), "window": Field(whole(1))})), {}
    ),
    "max_file_bytes": Field(size(MOST_FILE_BYTES)),
    "require_idempotency_key": Field(value_of(flag), False),
}

FILE = table(
    {
        "pools": Field(map_of(table(POOL)), {}),
        "job_types": Field(map_of(table(JOB_TYPE)), {}),
        "tenants": Field(map_of(table(TENANT)), {}),
        "budgets": Field(BUDGETS),
    }
)
