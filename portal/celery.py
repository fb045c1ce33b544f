"""The site's Celery application: it hears from nodes on the `portal` queue and sends them work on theirs."""

import os
from pathlib import Path
from typing import Any

from celery import Celery

from evaluator.contract import PORTAL_QUEUE

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")


def broker_config(url: str, directory: Path) -> dict[str, Any]:
    """Celery's settings for the broker at `url`; `directory` holds the messages of a `filesystem://` one."""
    return {
        "broker_url": url,
        "broker_transport_options": _transport_options(url, directory),
        "broker_connection_timeout": 4,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "task_publish_retry": True,
        "task_publish_retry_policy": {"max_retries": 2, "interval_start": 0.2, "interval_step": 0.4, "timeout": 5},
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
        "worker_prefetch_multiplier": 1,
        "worker_enable_remote_control": False,
        "worker_send_task_events": False,
        "worker_hijack_root_logger": False,
    }


def _transport_options(url: str, directory: Path) -> dict[str, Any]:
    if url.startswith("filesystem:"):
        for folder in ("messages", "control"):
            (directory / folder).mkdir(parents=True, exist_ok=True, mode=0o700)
        messages = str(directory / "messages")
        return {
            "data_folder_in": messages,
            "data_folder_out": messages,
            "control_folder": str(directory / "control"),
            "polling_interval": 0.1,
        }
    if url.startswith("redis"):
        # The prefix lets a Redis ACL confine each party to keys of ours. An unacknowledged message comes back after
        # the visibility timeout; ours are acknowledged early, so it only bounds what a killed worker held.
        return {"global_keyprefix": "pkb:", "socket_timeout": 5, "socket_connect_timeout": 4, "visibility_timeout": 300}
    return {}


app = Celery("portal")


@app.on_configure.connect
def _configure(sender: Celery, **_: object) -> None:
    from django.conf import settings  # noqa: PLC0415 - importing this module must not read the settings

    sender.conf.update(
        **broker_config(settings.BROKER_URL, settings.BROKER_DIR), task_default_queue=PORTAL_QUEUE, task_acks_late=False
    )


app.autodiscover_tasks(["portal.submissions", "portal.nodes"])
