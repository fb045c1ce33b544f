"""How site and nodes reach their broker: Celery settings that both sides share, from one address."""

from pathlib import Path
from typing import Any

from kombu.transport import TRANSPORT_ALIASES

FILES_SCHEME = "filesystem"
"""The scheme of a broker that is a folder, for an installation on one machine."""

_FILES_TRANSPORT = "pkbfiles"


def broker_config(url: str, directory: Path) -> dict[str, Any]:
    """Celery's settings for the broker at `url`; `directory` holds the messages of a `filesystem://` one.

    Messages are JSON and acknowledged before the work starts: what a killed process held is found by the site's
    leases, not by redelivery. Publishing gives up after a few seconds instead of waiting for the broker.
    """
    is_files = url.startswith(f"{FILES_SCHEME}:")
    if is_files:
        TRANSPORT_ALIASES[_FILES_TRANSPORT] = "evaluator.broker.files:Transport"
    return {
        "broker_url": f"{_FILES_TRANSPORT}://" if is_files else url,
        "broker_transport_options": _transport_options(url, directory),
        "broker_connection_timeout": 4,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "task_publish_retry": True,
        "task_publish_retry_policy": {"max_retries": 2, "interval_start": 0.2, "interval_step": 0.4, "timeout": 5},
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_acks_late": False,
        "task_ignore_result": True,
        "worker_prefetch_multiplier": 1,
        "worker_enable_remote_control": False,
        "worker_send_task_events": False,
        "worker_hijack_root_logger": False,
    }


def _transport_options(url: str, directory: Path) -> dict[str, Any]:
    if url.startswith(f"{FILES_SCHEME}:"):
        return {"folder": str(directory), "polling_interval": 0.1}
    if url.startswith("redis"):
        # The prefix lets a Redis ACL confine each party to keys of ours.
        return {"global_keyprefix": "pkb:", "socket_timeout": 5, "socket_connect_timeout": 4}
    return {}
