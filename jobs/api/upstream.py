"""What upstreams call: the address an attempt was sent with. Its token is the key; who has it may speak of that attempt."""

from django.http import HttpResponse
from rest_framework.permissions import AllowAny
from rest_framework.request import Request

from jobs import callbacks, calls
from jobs.api import schemas
from jobs.api.answers import ApiView
from jobs.api.refusals import NotFound
from jobs.flight import Flight
from upstream.answer import Answer, read

MOST_BYTES = 10_000_000  # of its body, as of an answer
LONGEST_ID = 18  # digits; more would be no id the database knows


class Callback(ApiView):
    """News of one attempt, from the upstream itself. Doubled, late and early ones are all taken."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    @schemas.callback
    def post(self, request: Request, attempt: str, token: str) -> HttpResponse:
        flight = flight_of(attempt, token)
        if flight is None:
            raise NotFound
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = request._request.read(MOST_BYTES + 1)
        # What is too large to be read is news all the same: where it can be asked, the upstream is.
        said = Answer(200, headers, None, readable=False) if len(body) > MOST_BYTES else read(200, headers, body)
        if not callbacks.told(flight, calls.call_of(flight, to_send=False), said):
            raise NotFound
        return HttpResponse(status=204)


def flight_of(attempt: str, token: str) -> Flight | None:
    """The attempt that this part of an address speaks of; None: of nothing."""
    known = attempt.isascii() and attempt.isdigit() and len(attempt) <= LONGEST_ID
    return callbacks.addressed(int(attempt), token) if known else None
