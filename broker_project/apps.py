"""The project as an app, so that its commands (`up`, `apply`, `audit`), templates and the control room are found."""

from django.apps import AppConfig


class BrokerProjectConfig(AppConfig):
    name = "broker_project"
    label = "broker_project"

    def ready(self) -> None:
        """Every model is there: what may be done to each is offered."""
        from broker_project.control import offers

        offers.make()
