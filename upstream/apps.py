"""Upstream: how a call is built, made and judged. It knows accounts and calls, not jobs."""

from django.apps import AppConfig


class UpstreamConfig(AppConfig):
    name = "upstream"
    label = "upstream"
    verbose_name = "Upstream"
