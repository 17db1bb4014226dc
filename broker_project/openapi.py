"""The OpenAPI document as it is committed (`docs/openapi.json`); a test holds it to the views."""

from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest, HttpResponse


def document(_request: HttpRequest) -> HttpResponse:
    """Written by `manage.py spectacular --format openapi-json --file docs/openapi.json`."""
    return HttpResponse(_content(), content_type="application/json", headers={"Cache-Control": "public, max-age=300"})


@lru_cache(maxsize=1)
def _content() -> bytes:
    return bytes((settings.BASE_DIR / "docs" / "openapi.json").read_bytes())
