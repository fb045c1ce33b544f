"""The site's Celery application: it receives messages of nodes on the `portal` queue and sends them work on theirs."""

import logging
import os

from celery import Celery
from celery.signals import setup_logging

from evaluator.broker import site_config

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

app = Celery("portal", task_cls="portal.plain_messages:PlainTask")


@app.on_configure.connect
def _configure(sender: Celery, **_: object) -> None:
    from django.conf import settings  # noqa: PLC0415 - importing this module must not read the settings

    sender.conf.update(site_config(settings.BROKER_URL, settings.BROKER_DIR))


@setup_logging.connect
def _leave_logging(**_: object) -> None:
    """The site's settings say how lines look; with a receiver here Celery keeps its hands off."""
    from portal.plain_messages import RetriesInALine  # noqa: PLC0415 - Django is set up by now

    logging.getLogger("celery.app.trace").addFilter(RetriesInALine())


app.autodiscover_tasks(["portal.submissions", "portal.dispatcher"])
