"""Every address is looked at: each one under /v1 demands a key and names a scope."""

import re
from collections.abc import Iterator
from uuid import uuid4

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from tenants.keys import SCOPES
from tests.api.conftest import Caller, assert_problem

PUBLIC = {"v1/openapi.json"}


def _patterns(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for entry in resolver.url_patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from _patterns(entry, route)
        else:
            yield route, entry


# Of upstreams, not of tenants: its address holds its own key.
OF_UPSTREAMS = {"v1/upstream/<str:attempt>/<str:token>"}
V1 = [
    (route, entry)
    for route, entry in _patterns(get_resolver())
    if route.startswith("v1/") and route not in PUBLIC | OF_UPSTREAMS
]


def test_there_are_routes_to_look_at() -> None:
    assert len(V1) >= 9


@pytest.mark.parametrize(("route", "entry"), V1, ids=[route for route, _ in V1])
def test_each_route_names_a_scope_for_each_method(route: str, entry: URLPattern) -> None:
    view = entry.callback.view_class  # type: ignore[attr-defined]
    methods = {name.upper() for name in ("get", "post", "put", "patch", "delete") if hasattr(view, name)}
    assert set(view.scopes) == methods
    assert set(view.scopes.values()) <= set(SCOPES)


@pytest.mark.django_db
@pytest.mark.parametrize("route", [route for route, _ in V1])
def test_each_route_demands_a_key_and_its_scope(route: str, caller_of: object) -> None:
    address = "/" + re.sub(r"<str:\w+>", str(uuid4()), route)
    nobody = Caller(None, "")  # type: ignore[arg-type]
    powerless = caller_of(scopes=())  # type: ignore[operator]
    for method in ("get", "post"):
        response = getattr(nobody, method)(address)
        assert_problem(response, 401, "unauthenticated")
        response = getattr(powerless, method)(address)
        assert response.status_code in (403, 405)
