"""The project as an app, so that its commands (`up`, `apply`, `audit`) are found."""

from django.apps import AppConfig


class BrokerProjectConfig(AppConfig):
    name = "broker_project"
    label = "broker_project"
