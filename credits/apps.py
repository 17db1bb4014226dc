"""The credits app: a double-entry ledger of what tenants own, hold and spend."""

from django.apps import AppConfig


class CreditsConfig(AppConfig):
    name = "credits"
    default_auto_field = "django.db.models.BigAutoField"
