"""Registers the app with Django, for its template tags."""

from django.apps import AppConfig


class PagesConfig(AppConfig):
    """It has no tables."""

    name = "portal.pages"
    label = "pages"
