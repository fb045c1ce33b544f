"""Celery settings for the broker, shared by site and nodes, from one address."""

import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kombu import Queue
from kombu.transport import TRANSPORT_ALIASES

from evaluator.broker.queues import is_amqp, is_redis, site_queue, work_queue

FILES_SCHEME = "filesystem"
"""The scheme of a broker that is a folder, for an installation on one machine."""

KEY_PREFIX = "pkb:"
"""What every key on Redis begins with, so that access lists can confine each user to our keys."""

_FILES_TRANSPORT = "pkbfiles"
_AHEAD = 16
"""Messages that a worker of the site takes ahead, for each process of its pool."""


def site_config(url: str, directory: Path) -> dict[str, Any]:
    """Celery's settings for the site's side of the broker at `url`; `directory` holds the messages of `filesystem://`.

    Its tasks are short and change nothing when they run twice, so a message is acknowledged when its task has ended: a
    killed worker loses no report.
    """
    settings = _shared(url, directory, site_queue(url, declared=True))
    if is_redis(url):
        settings["broker_transport_options"] |= {"visibility_timeout": 60}
    # A worker takes messages before its pool has room, because heartbeats among them do not go there: the first process
    # keeps the reports meanwhile, and what it had not acknowledged comes again after its end.
    ahead = {"worker_prefetch_multiplier": _AHEAD}
    return settings | {"task_acks_late": True, "task_reject_on_worker_lost": True} | ahead


def node_config(url: str, directory: Path, *, node: str) -> dict[str, Any]:
    """Celery's settings for the side of `node`.

    A message is acknowledged before the work starts, because brokers redeliver messages that are unacknowledged for
    long. The site's leases find the work of a killed node.
    """
    settings = _shared(url, directory, work_queue(node, declared=False))
    if is_redis(url):
        # All consumers share the list of unacknowledged messages: keeping it would need rights beyond the queue.
        settings["broker_transport_options"] |= {"ack_emulation": False}
    # After a lost connection Celery lowers the prefetch count, to raise it as the next task is acknowledged. That waits
    # for the broker's answer in the task's thread, while the main thread reads the same socket: on AMQP it hangs.
    return settings | {"task_acks_late": False, "worker_enable_prefetch_count_reduction": False}


def _shared(url: str, directory: Path, listen_on: Queue) -> dict[str, Any]:
    """Messages are JSON, and publishing gives up after a few seconds instead of waiting for the broker."""
    is_files = url.startswith(f"{FILES_SCHEME}:")
    if is_files:
        TRANSPORT_ALIASES[_FILES_TRANSPORT] = "evaluator.broker.files:Transport"
    return {
        "broker_url": f"{_FILES_TRANSPORT}://localhost//" if is_files else url,
        "broker_transport_options": _transport_options(url, directory),
        "broker_use_ssl": _tls(url),
        "task_queues": (listen_on,),
        "task_default_queue": listen_on.name,
        "broker_connection_timeout": 4,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "task_publish_retry": True,
        "task_publish_retry_policy": {"max_retries": 2, "interval_start": 0.2, "interval_step": 0.4},
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
        "worker_prefetch_multiplier": 1,
        "worker_enable_remote_control": False,
        "worker_send_task_events": False,
        "worker_hijack_root_logger": False,
    }


def _transport_options(url: str, directory: Path) -> dict[str, Any]:
    if url.startswith(f"{FILES_SCHEME}:"):
        return {"folder": str(directory), "polling_interval": 0.1}
    if is_redis(url):
        # One list per queue, not one per priority: a node's user is confined to the very key of its queue.
        options = {"global_keyprefix": KEY_PREFIX, "priority_steps": [0]}
        return options | {"socket_timeout": 5, "socket_connect_timeout": 4, "socket_keepalive": True}
    if is_amqp(url):
        return {"confirm_publish": True}
    return {}


def _tls(url: str) -> dict[str, Any] | None:
    """TLS settings that verify the broker's certificate: the host of its URL, by an authority that this machine trusts.

    Without this kombu accepts any certificate from Redis, and one of any host from RabbitMQ. SSL_CERT_FILE names a
    private authority.
    """
    match url.partition(":")[0]:
        case "rediss":
            return {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True}
        case "amqps":
            return {"context": {"check_hostname": True}, "server_hostname": urlsplit(url).hostname}
    return None
