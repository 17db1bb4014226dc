"""Every address of the web process."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularSwaggerView

from broker_project import errors, openapi
from broker_project.control import live_page

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("", include("jobs.api.urls")),
    path("v1/openapi.json", openapi.document, name="openapi"),
    path("docs", SpectacularSwaggerView.as_view(url_name="openapi"), name="docs"),
    path("problems/<slug:code>", errors.explain, name="problem"),
    path("admin/live", live_page.numbers, name="live"),
    path("admin/", admin.site.urls),
]
