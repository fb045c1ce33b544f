"""Has every app receive the events of those below it."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class CoreConfig(AppConfig):
    name = "portal.core"

    def ready(self) -> None:
        """Import the module `receivers` of each app that has one."""
        autodiscover_modules("receivers")
