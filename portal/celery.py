"""The site's Celery application. It only sends: work to the queues of nodes, which answer over HTTPS."""

from celery import Celery

from evaluator.broker import site_config

app = Celery("portal")


@app.on_configure.connect
def _configure(sender: Celery, **_: object) -> None:
    from django.conf import settings  # noqa: PLC0415 - importing this module must not read the settings

    sender.conf.update(site_config(settings.BROKER_URL, settings.BROKER_DIR))
