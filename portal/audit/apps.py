"""Registers the app with Django."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    """It has no tables: `manage.py audit` is found through it."""

    name = "portal.audit"
    label = "audit"
