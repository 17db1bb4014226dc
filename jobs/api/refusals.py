"""What the HTTP side refuses before the domain is asked, named as facts. `broker_project.errors` makes problems of them."""

from collections.abc import Sequence

from credits.errors import BudgetExceeded, CreditsError, Paced
from jobs.admission import InvalidField


def problem_of(error: CreditsError) -> str:
    """The code of the problem that a submit refused for want of credits, budget or patience is answered with."""
    return "quota-exceeded" if isinstance(error, BudgetExceeded | Paced) else "insufficient-credits"


class InvalidFields(Exception):
    """One or more fields of the body or the query are wrong."""

    def __init__(self, fields: Sequence[InvalidField]) -> None:
        super().__init__("; ".join(str(field) for field in fields))
        self.fields = list(fields)


class Malformed(Exception):
    """The body is no JSON, or a cursor is not one of ours."""


class BodyTooLarge(Exception):
    """The body has more bytes than any request may have."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"a request may have at most {limit} bytes; send what is large to POST /v1/files and refer to it"
        )
        self.limit = limit


class IdempotencyKeyMissing(Exception):
    """The tenant wants an Idempotency-Key on every submit."""


class IdempotencyKeyInvalid(Exception):
    """The Idempotency-Key is not 16 to 128 characters of [A-Za-z0-9_.:-]."""


class NotFound(Exception):
    """There is no such thing for this tenant. The same answer whether it is missing or another tenant's."""


class JobFailed(Exception):
    """A result was asked for, but the job ended without one."""

    def __init__(self, state: str, error: object) -> None:
        super().__init__(f"the job is {state} and has no result")
        self.state, self.error = state, error
