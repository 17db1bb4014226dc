"""The documents of the API as serializers: for the OpenAPI file alone, the views write JSON by hand."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers as s

from files.models import File
from jobs.states import ATTEMPT_PHASES, JOB, VERDICTS

STATES = list(JOB.states)
KINDS = list(File.Kind.values)
PHASES = [*(phase for phase in ATTEMPT_PHASES if phase != "ended"), "verifying"]
CREDITS: dict[str, Any] = {"help_text": "Credits as a decimal text with six places."}


@extend_schema_field({})
class AnyJson(s.Field):  # type: ignore[type-arg]
    """Any JSON value."""


@extend_schema_field({"type": "object", "additionalProperties": {}})
class JsonObject(s.Field):  # type: ignore[type-arg]
    """Any JSON object."""


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "number", "minimum": 0}]})
class TextOrNumber(s.Field):  # type: ignore[type-arg]
    """A decimal text, or a number."""


class Submission(s.Serializer[Any]):
    type = s.CharField(max_length=100, help_text="Name of a job type.")
    payload = AnyJson(help_text="As the type's payload_schema says.")
    priority = s.IntegerField(required=False, allow_null=True, min_value=-1000, max_value=1000,
                              help_text="Higher goes first among the tenant's own jobs.")  # fmt: skip
    run_at = s.DateTimeField(required=False, allow_null=True, help_text="Not before this time; within a year.")
    start_deadline = s.CharField(required=False, allow_null=True,
                                 help_text="A duration, as 10m, or a time; not started by then: it fails.")  # fmt: skip
    max_price = TextOrNumber(required=False, allow_null=True, help_text="Refuse when the price is above, in credits.")
    max_attempts = s.IntegerField(required=False, allow_null=True, min_value=1, max_value=100)
    metadata = JsonObject(required=False, allow_null=True, help_text="Returned with the job; at most 16 kB.")


class JobError(s.Serializer[Any]):
    code = s.CharField(help_text="upstream_refused: it refused the account that the job ran with; what it said of that "
                       "account is not shown.")  # fmt: skip
    message = s.CharField(allow_blank=True)
    retryable = s.BooleanField(help_text="true: its tries are used up, and another would do no harm; POST …/replay begins "
                               "one. false: it would fail again, or might do the work twice.")  # fmt: skip


class Queue(s.Serializer[Any]):
    position = s.IntegerField(help_text="Advisory: others may be put before it.")
    ahead = s.IntegerField()
    eta_seconds = s.FloatField(
        allow_null=True, help_text="Seconds until it starts. null: not estimated, as always now."
    )


class Credits(s.Serializer[Any]):
    held = s.CharField(**CREDITS)
    charged = s.CharField(**CREDITS)
    refunded = s.CharField(**CREDITS)


class Urls(s.Serializer[Any]):
    self = s.CharField()
    cancel = s.CharField()
    result = s.CharField()
    events = s.CharField(allow_null=True, help_text="null: there is no such address, as always now.")
    ledger = s.CharField(allow_null=True, help_text="null: there is no such address, as always now.")


class JobDocument(s.Serializer[Any]):
    id = s.UUIDField()
    type = s.CharField()
    state = s.ChoiceField(choices=STATES)
    phase = s.ChoiceField(choices=PHASES, allow_null=True,
                          help_text="Of the attempt under way; verifying: its outcome is being found out.")  # fmt: skip
    cancel_requested = s.BooleanField()
    waiting_for = s.ChoiceField(
        choices=["run_at", "back_off", "pool", "upstream_credits", "turn", "session"], allow_null=True,
        help_text="pool: it is closed since a restore, until when says closed_until of GET /v1/pools.")  # fmt: skip
    queue = Queue(
        allow_null=True,
        help_text="null: it has no turn (see waiting_for), 1,000 or more are ahead, or this is not of GET /v1/jobs/{job}.",
    )
    progress = s.FloatField(allow_null=True, min_value=0, max_value=1, help_text="null: its upstream has told none.")
    result = AnyJson(
        help_text="null until completed. Up to 64 kB (4 kB in lists); larger ones at result_url; of "
        "one that is a file {file, url, content_type, size, sha256}."
    )
    result_url = s.CharField(allow_null=True, help_text="null until completed.")
    error = JobError(allow_null=True)
    credits = Credits()
    attempts = s.IntegerField(help_text="Tries that count against max_attempts, in this run, the one under way included: "
                              "one that the upstream was too busy for does not count.")  # fmt: skip
    created_at = s.DateTimeField()
    assigned_at = s.DateTimeField(allow_null=True, help_text="When the last try was given a session.")
    started_at = s.DateTimeField(allow_null=True, help_text="When the upstream was first called in this run: of its first "
                                 "try. After a retry it is before assigned_at.")  # fmt: skip
    finished_at = s.DateTimeField(allow_null=True, help_text="null until it has ended.")
    metadata = JsonObject()
    urls = Urls()
    version = s.IntegerField()


class JobPage(s.Serializer[Any]):
    data = JobDocument(many=True)  # type: ignore[assignment]
    next_cursor = s.CharField(allow_null=True)


class PriceQuote(s.Serializer[Any]):
    type = s.CharField()
    price = s.CharField(**CREDITS)
    price_version = s.IntegerField()
    available = s.CharField(help_text="What a submit may hold now, the credit limit included.")
    accepted = s.BooleanField(
        help_text="Whether it would be accepted now. Nothing is held, so a moment later it may not."
    )
    reason = s.ChoiceField(choices=["insufficient-credits", "quota-exceeded"], allow_null=True,
                           help_text="Code of the problem it would be refused with.")  # fmt: skip


class MoveDocument(s.Serializer[Any]):
    to = s.CharField(help_text="The state it moved to.")
    cause = s.CharField(allow_blank=True)
    actor = s.ChoiceField(choices=["tenant", "operator", "berth"])
    at = s.DateTimeField()

    def get_fields(self) -> dict[str, s.Field[Any, Any, Any, Any]]:
        """`from` is no name Python lets a class have."""
        return {"from": s.CharField(allow_null=True, help_text="null: it was submitted."), **super().get_fields()}


class Moves(s.Serializer[Any]):
    data = MoveDocument(many=True)  # type: ignore[assignment]


class AttemptError(s.Serializer[Any]):
    code = s.CharField(help_text="upstream_refused: as of a job.")
    message = s.CharField(allow_blank=True)


class AttemptDocument(s.Serializer[Any]):
    number = s.IntegerField()
    run = s.IntegerField()
    phase = s.ChoiceField(choices=list(ATTEMPT_PHASES))
    opened_at = s.DateTimeField()
    called_at = s.DateTimeField(allow_null=True)
    ended_at = s.DateTimeField(allow_null=True)
    verdict = s.ChoiceField(choices=list(VERDICTS), allow_null=True)
    error = AttemptError(allow_null=True)


class Attempts(s.Serializer[Any]):
    data = AttemptDocument(many=True)  # type: ignore[assignment]


class FileDocument(s.Serializer[Any]):
    id = s.UUIDField()
    kind = s.ChoiceField(choices=KINDS, help_text="input: sent to us; result: made by a job.")
    size = s.IntegerField(help_text="Bytes.")
    sha256 = s.CharField(help_text="Of its bytes, in hexadecimal.")
    content_type = s.CharField()
    name = s.CharField(allow_blank=True)
    created_at = s.DateTimeField()
    expires_at = s.DateTimeField(help_text="Kept until then, and longer while a job that refers to it has not ended.")


class FileUsage(s.Serializer[Any]):
    input_bytes = s.IntegerField(help_text="Of the files that were sent and are kept.")
    result_bytes = s.IntegerField(help_text="Of results that are files; counted, and never refused.")
    max_input_bytes = s.IntegerField(help_text="A file that would make input_bytes more is refused (429).")


class FilePage(s.Serializer[Any]):
    data = FileDocument(many=True)  # type: ignore[assignment]
    next_cursor = s.CharField(allow_null=True)
    usage = FileUsage()


class Expiring(s.Serializer[Any]):
    expires_at = s.DateTimeField()
    amount = s.CharField(help_text="Credits that expire then, unless they are used or held before.")


class Budget(s.Serializer[Any]):
    budget = s.CharField(**CREDITS)
    used = s.CharField(help_text="Charged since the period began (UTC), and all that is held now.")


class Budgets(s.Serializer[Any]):
    day = Budget(allow_null=True, help_text="null: no budget.")
    month = Budget(allow_null=True, help_text="null: no budget.")


class BalanceDocument(s.Serializer[Any]):
    posted = s.CharField(**CREDITS)
    held = s.CharField(**CREDITS)
    available = s.CharField(help_text="What a submit may hold now, the credit limit included.")
    credit_limit = s.CharField(**CREDITS)
    owed = s.CharField(help_text="Usage above what was held, yet to be paid; it counts against what is available.")
    budgets = Budgets()
    expiring = Expiring(many=True, help_text="Soonest first; what is held is not in it.")


class JobTypeDocument(s.Serializer[Any]):
    name = s.CharField()
    pool = s.CharField()
    price = s.CharField(help_text="CEL, in credits: what is held at submit.")
    tenant_price = s.CharField(allow_null=True, help_text="CEL over `price`, where the tenant has its own.")
    settle = s.CharField(allow_null=True, help_text="CEL, in credits: what is charged. null: what was held.")
    payload_schema = JsonObject()
    max_payload_bytes = s.IntegerField()
    start_deadline_seconds = s.FloatField(allow_null=True)
    max_runtime_seconds = s.FloatField()
    delivery = s.CharField()
    version = s.IntegerField()


class JobTypeList(s.Serializer[Any]):
    data = JobTypeDocument(many=True)  # type: ignore[assignment]


class PoolDocument(s.Serializer[Any]):
    name = s.CharField()
    accepting = s.BooleanField()
    closed_until = s.DateTimeField(
        allow_null=True, help_text="After a restore: jobs are accepted, and none begins before. null: it is open."
    )
    depth = s.IntegerField(help_text="Pending jobs; counted up to about 100,000.")
    running = s.IntegerField()
    lag_seconds = s.FloatField(help_text="Age of the oldest job whose turn it is.")
    sessions = s.DictField(child=s.IntegerField(), help_text="Total, and by state.")
    estimated_wait_seconds = s.FloatField(allow_null=True, help_text="null: not estimated, as always now.")


class PoolList(s.Serializer[Any]):
    data = PoolDocument(many=True)  # type: ignore[assignment]


class Fault(s.Serializer[Any]):
    pointer = s.CharField(allow_blank=True, help_text="JSON pointer into the body, or ?name of a query parameter.")
    detail = s.CharField()


class Problem(s.Serializer[Any]):
    """RFC 9457. Some problems carry members of their own; clients ignore those they do not know."""

    type = s.CharField()
    title = s.CharField()
    status = s.IntegerField()
    code = s.CharField()
    detail = s.CharField(required=False)
    request_id = s.CharField()
    errors = Fault(many=True, required=False)  # type: ignore[assignment]
    quota = s.CharField(required=False, help_text="Of quota-exceeded: day budget, month budget, either followed by "
                        "`of all tenants`, pace, or file bytes.")  # fmt: skip
    resets_at = s.DateTimeField(required=False, help_text="Of a budget: when its next day or month begins (UTC).")
