"""Registers the app with Django."""

from django.apps import AppConfig
from django.contrib.admin import apps as admin_apps
from django.core.management import call_command
from django.db.models.signals import post_migrate


class AccountsConfig(AppConfig):
    """The label is the app's name in migrations and permissions."""

    default = True  # beside OperatorsAdminConfig
    name = "portal.accounts"
    label = "accounts"
    verbose_name = "People and organisations"

    def ready(self) -> None:
        """Make the table that counts failed sign-ins whenever the other tables are brought up to date."""
        post_migrate.connect(
            lambda **_: call_command("createcachetable", verbosity=0),
            sender=self,
            weak=False,
            dispatch_uid="accounts.cache_table",
        )


class OperatorsAdminConfig(admin_apps.AdminConfig):
    default = False
    default_site = "portal.accounts.operators.OperatorsSite"
