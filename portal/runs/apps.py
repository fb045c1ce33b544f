"""Registers the app with Django."""

from django.apps import AppConfig


class RunsConfig(AppConfig):
    """The label is the app's name in migrations and permissions."""

    name = "portal.runs"
    label = "runs"
