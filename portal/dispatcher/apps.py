"""Registers the app with Django."""

from django.apps import AppConfig


class DispatcherConfig(AppConfig):
    """It has no tables: `manage.py dispatch` and the task that hears heartbeats are found through it."""

    name = "portal.dispatcher"
    label = "dispatcher"
