"""Registers the app with Django."""

from django.apps import AppConfig


class DispatcherConfig(AppConfig):
    """It has no tables: Django finds `manage.py dispatch` and the heartbeat task through it."""

    name = "portal.dispatcher"
    label = "dispatcher"
