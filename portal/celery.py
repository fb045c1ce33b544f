"""The site's Celery application: it hears from nodes on the `portal` queue and sends them work on theirs."""

import os

from celery import Celery

from evaluator.broker import broker_config
from evaluator.contract import PORTAL_QUEUE

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

app = Celery("portal")


@app.on_configure.connect
def _configure(sender: Celery, **_: object) -> None:
    from django.conf import settings  # noqa: PLC0415 - importing this module must not read the settings

    sender.conf.update(broker_config(settings.BROKER_URL, settings.BROKER_DIR) | {"task_default_queue": PORTAL_QUEUE})


app.autodiscover_tasks(["portal.submissions", "portal.nodes"])
