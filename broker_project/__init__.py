"""Berth's Django project: settings, Celery, URLs, and the commands an operator types."""

from broker_project.celery import app as celery_app

__all__ = ["celery_app"]
