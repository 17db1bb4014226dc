"""What upstreams call: the address an attempt was sent with. Its token is the key; who has it may speak of that attempt."""

from django.http import HttpResponse
from rest_framework.permissions import AllowAny
from rest_framework.request import Request

from jobs import callbacks, calls
from jobs.api import schemas
from jobs.api.answers import ApiView
from jobs.api.refusals import NotFound
from upstream.answer import Answer, read

MOST_BYTES = 10_000_000  # of its body, as of an answer


class Callback(ApiView):
    """News of one attempt, from the upstream itself. Doubled, late and early ones are all taken.

    503 of an attempt that a restore lost, and that may come again: they are to be repeated.
    """

    authentication_classes = ()
    permission_classes = (AllowAny,)

    @schemas.callback
    def post(self, request: Request, attempt: str, token: str) -> HttpResponse:
        flight = callbacks.addressed(attempt, token)
        if flight is None:
            raise NotFound
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = request._request.read(MOST_BYTES + 1)
        # What is too large to be read is news all the same: where it can be asked, the upstream is.
        said = Answer(200, headers, None, readable=False) if len(body) > MOST_BYTES else read(200, headers, body)
        if not callbacks.told(flight, calls.call_of(flight, to_send=False), said):
            raise NotFound
        return HttpResponse(status=204)
