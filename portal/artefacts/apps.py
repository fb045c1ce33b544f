"""Registers the app with Django."""

from django.apps import AppConfig


class ArtefactsConfig(AppConfig):
    """It has no tables: `manage.py artefacts` is found through it."""

    name = "portal.artefacts"
    label = "artefacts"
