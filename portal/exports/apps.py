"""Registers the app with Django."""

from django.apps import AppConfig


class ExportsConfig(AppConfig):
    """It has no tables in the database: `manage.py make_exports` is found through it."""

    name = "portal.exports"
    label = "exports"
