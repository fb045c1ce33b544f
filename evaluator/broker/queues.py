"""The queues between site and nodes: a node's user needs no right beyond its own work.

The site receives from all nodes on one queue; every node has its own queue. A node's user may read its own queue and
add to the site's. deploy/broker_credentials.py makes such users, and on RabbitMQ the queues: a node declares nothing.
"""

from typing import Any

from kombu import Connection, Exchange, Queue
from kombu.transport import virtual

from evaluator.contract import PORTAL_QUEUE, node_queue

_BY_NAME = Exchange("")
"""The exchange that leads to the queue of the name given: a broker has it without declaring it."""


def is_amqp(url: str) -> bool:
    """Whether the broker at `url` is RabbitMQ or another that speaks AMQP."""
    return url.partition(":")[0] in ("amqp", "amqps", "pyamqp")


def is_redis(url: str) -> bool:
    """Whether the broker at `url` is Redis."""
    return url.partition(":")[0] in ("redis", "rediss")


def site_queue(url: str, *, declared: bool) -> Queue:
    """The queue on which the site receives from its nodes; only the site passes `declared`.

    On AMQP an exchange of the same name leads there, because a user who may publish to the default exchange reaches
    every queue.
    """
    exchange = Exchange(PORTAL_QUEUE, type="direct", no_declare=not declared) if is_amqp(url) else _BY_NAME
    return Queue(PORTAL_QUEUE, exchange, routing_key=PORTAL_QUEUE, no_declare=not declared)


def work_queue(node: str, *, declared: bool) -> Queue:
    """The queue of a node; only the site passes `declared`."""
    name = node_queue(node)
    return Queue(name, _BY_NAME, routing_key=name, no_declare=not declared)


def length(queue: Queue, connection: Connection) -> int:
    """How many messages wait in a queue; 0 where nobody has made it yet.

    Asking passively for a queue, as on AMQP, fails on Redis: kombu then leaves out the prefix of our keys, and the
    site's user may not read beyond it.

    Raises:
        OSError: the broker does not answer.
    """
    try:
        # A channel each: RabbitMQ closes the one on which a queue is asked for that nobody has made.
        with connection.channel() as channel:
            if isinstance(channel, virtual.Channel):
                return int(channel._size(queue.name))  # noqa: SLF001 - kombu's own name for it
            declared: Any = queue.bind(channel).queue_declare(passive=True)
            return int(declared.message_count)
    except connection.connection_errors as error:
        raise OSError(f"the broker does not say how much waits in {queue.name}: {error}") from error
    except connection.channel_errors:
        return 0


def address_of(queue: Queue) -> dict[str, Any]:
    """What `send_task` needs to reach `queue` through its exchange; otherwise Celery uses the default exchange."""
    return {"queue": queue, "exchange": queue.exchange.name, "routing_key": queue.routing_key}
