"""Registers the app with Django, for its template tags and the pages that operators write."""

from django.apps import AppConfig


class PagesConfig(AppConfig):
    """The label is the app's name in migrations."""

    name = "portal.pages"
    label = "pages"
