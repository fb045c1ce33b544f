"""The site's Celery application: it receives messages of nodes on the `portal` queue and sends them work on theirs."""

import logging
import os
import sys
from typing import Any

from celery import Celery, Task
from celery.signals import setup_logging, task_postrun, task_prerun
from django.db import close_old_connections

from evaluator.broker import site_config
from portal.database_away import RetriesInALine

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

# Celery would connect to the database for every message anew, which costs PostgreSQL more than the message itself.
_KEPT_CONNECTIONS = {"CELERY_DB_REUSE_MAX": sys.maxsize}

app = Celery("portal", task_cls="portal.plain_messages:PlainTask")


@app.on_configure.connect
def _configure(sender: Celery, **_: object) -> None:
    from django.conf import settings  # noqa: PLC0415 - importing this module must not read the settings

    sender.conf.update(site_config(settings.BROKER_URL, settings.BROKER_DIR) | _KEPT_CONNECTIONS)


@task_prerun.connect
@task_postrun.connect
def _look_at_connections(sender: Task[Any, Any], **_: object) -> None:
    """As around a web request: a connection that broke or is old is closed, and tried before its next use."""
    # Only a worker is outside of any transaction here.
    if not sender.request.is_eager:
        close_old_connections()


@setup_logging.connect
def _leave_logging(**_: object) -> None:
    """The site's settings say how lines look; with a receiver here Celery keeps its hands off."""
    logging.getLogger("celery.app.trace").addFilter(RetriesInALine())


app.autodiscover_tasks(["portal.submissions", "portal.dispatcher"])
