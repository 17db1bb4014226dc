"""App configuration: when the app is ready, the flow receives the signals."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        from jobs import flow  # noqa: F401  connects the receivers
