"""App configuration."""

from django.apps import AppConfig


class StatemachineConfig(AppConfig):
    name = "statemachine"
