"""The queues of nodes: each node has one, on which it receives its work. Nodes send nothing through the broker."""

from typing import Any

from kombu import Connection, Queue
from kombu.transport import virtual

from evaluator.contract import node_queue

KEY_PREFIX = "pkb:"
"""What every key on Redis begins with, so that access lists can confine each user to our keys."""


def is_redis(url: str) -> bool:
    """Whether the broker at `url` is Redis."""
    return url.partition(":")[0] in ("redis", "rediss")


def work_queue(node: str) -> Queue:
    """The queue of a node."""
    name = node_queue(node)
    return Queue(name, routing_key=name, no_declare=True)


def length(queue: Queue, connection: Connection) -> int:
    """How many messages wait in a queue; 0 where nobody has made it yet.

    Asking passively for a queue fails on Redis: kombu then leaves out the prefix of our keys, and the site's user may
    not read beyond it.

    Raises:
        OSError: the broker does not answer.
    """
    try:
        with connection.channel() as channel:
            assert isinstance(channel, virtual.Channel)
            return int(channel._size(queue.name))  # noqa: SLF001 - kombu's own name for it
    except connection.connection_errors as error:
        raise OSError(f"the broker does not say how much waits in {queue.name}: {error}") from error


def address_of(queue: Queue) -> dict[str, Any]:
    """What `send_task` needs to reach `queue`; otherwise Celery declares exchanges of its own."""
    return {"queue": queue, "exchange": "", "routing_key": queue.routing_key}
