"""Who asks: an API key as bearer token, and whether it may. A view names a scope per method; one not named is denied."""

from typing import TYPE_CHECKING, Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from structlog.contextvars import bind_contextvars

from tenants import keys
from tenants.models import ApiKey, Tenant

if TYPE_CHECKING:  # the settings name this module while rest_framework.views is being imported
    from rest_framework.views import APIView


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer <key>`; `request.user` is the tenant, `request.auth` the key."""

    def authenticate(self, request: Request) -> tuple[Tenant, ApiKey] | None:
        sent = request.META.get("HTTP_AUTHORIZATION", "")
        if not sent:
            return None
        scheme, _, key = sent.partition(" ")
        if scheme.lower() != "bearer" or (found := keys.verify(key.strip())) is None:
            raise AuthenticationFailed("the API key is not valid")
        bind_contextvars(tenant=found.tenant.name)
        return found.tenant, found

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002  the signature is DRF's
        return 'Bearer realm="berth"'


class HasScope(BasePermission):
    """The key's scopes contain the one that the view names for this method."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        if request.method not in view.allowed_methods:
            return request.auth is not None  # what comes next says that there is no such method
        key: Any = request.auth
        wanted = getattr(view, "scopes", {}).get("GET" if request.method == "HEAD" else request.method)
        return isinstance(key, ApiKey) and wanted is not None and wanted in key.scopes
