"""Celery settings for the broker, shared by site and nodes, from one address."""

import ssl
from pathlib import Path
from typing import Any

from kombu.transport import TRANSPORT_ALIASES

from evaluator.broker.queues import KEY_PREFIX, is_redis, work_queue

FILES_SCHEME = "filesystem"
"""The scheme of a broker that is a folder, for an installation on one machine."""

_FILES_TRANSPORT = "pkbfiles"


def site_config(url: str, directory: Path) -> dict[str, Any]:
    """Celery's settings for the site, which only sends; `directory` holds the messages of `filesystem://`."""
    return _shared(url, directory)


def node_config(url: str, directory: Path, *, node: str) -> dict[str, Any]:
    """Celery's settings for `node`, which only receives.

    A message is acknowledged before the work starts, because brokers redeliver messages that are unacknowledged for
    long. The site's leases find the work of a killed node.
    """
    settings = _shared(url, directory)
    if is_redis(url):
        # All consumers share the list of unacknowledged messages: keeping it would need rights beyond the queue.
        settings["broker_transport_options"] |= {"ack_emulation": False}
    queue = work_queue(node)
    return settings | {
        "task_queues": (queue,),
        "task_default_queue": queue.name,
        "task_acks_late": False,
        "worker_prefetch_multiplier": 1,
        "worker_enable_remote_control": False,
        "worker_send_task_events": False,
        "worker_hijack_root_logger": False,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
    }


def _shared(url: str, directory: Path) -> dict[str, Any]:
    """Messages are JSON, and publishing gives up after a few seconds instead of waiting for the broker."""
    is_files = url.startswith(f"{FILES_SCHEME}:")
    if is_files:
        TRANSPORT_ALIASES[_FILES_TRANSPORT] = "evaluator.broker.files:Transport"
    return {
        "broker_url": f"{_FILES_TRANSPORT}://localhost//" if is_files else url,
        "broker_transport_options": _transport_options(url, directory),
        "broker_use_ssl": _tls(url),
        "broker_connection_timeout": 4,
        "task_publish_retry": True,
        "task_publish_retry_policy": {"max_retries": 2, "interval_start": 0.2, "interval_step": 0.4},
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
    }


def _transport_options(url: str, directory: Path) -> dict[str, Any]:
    if url.startswith(f"{FILES_SCHEME}:"):
        return {"folder": str(directory), "polling_interval": 0.1}
    if is_redis(url):
        # One list per queue, not one per priority: a node's user is confined to the very key of its queue.
        options = {"global_keyprefix": KEY_PREFIX, "priority_steps": [0]}
        return options | {"socket_timeout": 5, "socket_connect_timeout": 4, "socket_keepalive": True}
    return {}


def _tls(url: str) -> dict[str, Any] | None:
    """TLS settings that verify the broker's certificate: the host of its URL, by an authority that this machine trusts.

    Without this kombu accepts any certificate. SSL_CERT_FILE names a private authority.
    """
    return {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True} if url.startswith("rediss:") else None
