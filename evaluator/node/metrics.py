"""A node's metrics for Prometheus, read on request, so that nothing runs for them during a measurement."""

import logging
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from evaluator.contract import SlotState
from evaluator.node.outbox import Outbox
from evaluator.node.worker import Node

logger = logging.getLogger(__name__)


class NodeMetrics:
    """A collector over a node and its outbox."""

    def __init__(self, node: Node, outbox: Outbox) -> None:
        self._node = node
        self._outbox = outbox

    def collect(self) -> Iterator[Metric]:
        """Slots by state, work at hand, verdicts, and what waits for the site."""
        status = self._node.status
        slots = GaugeMetricFamily("pkb_node_slots", "Slots by profile and state.", labels=("profile", "state"))
        for profile in {slot.profile for slot in status.slots}:
            for state in SlotState:
                count = sum(slot.profile == profile and slot.state is state for slot in status.slots)
                slots.add_metric((profile, state.value), count)
        ended = CounterMetricFamily(
            "pkb_node_evaluations_ended", "Reports that the node wrote, by verdict.", labels=("profile", "verdict")
        )
        for labels, number in list(self._node.ended.items()):
            ended.add_metric(labels, number)
        yield from (slots, ended)
        yield _one("pkb_node_running", "Evaluations that the node judges or compiles now.", len(status.running))
        yield _one("pkb_node_builders", "Builders that are offered.", status.builders)
        yield from self._spool()

    def _spool(self) -> Iterator[Metric]:
        waiting = self._outbox.spool.waiting_since()
        oldest_s = time.time() - min(waiting) if waiting else 0.0
        yield _one("pkb_node_outbox_reports", "Reports that the site has not received yet.", len(waiting))
        yield _one("pkb_node_outbox_oldest_seconds", "How long the oldest of them has waited.", max(0.0, oldest_s))
        yield _one(
            "pkb_node_outbox_refused",
            "Messages that were refused, by the site or by the node.",
            len(self._outbox.refusals()),
        )
        yield _one("pkb_node_site_up", "Whether the site received the last message.", not self._outbox.site.failure)


def serve(listen: str, node: Node, outbox: Outbox) -> None:
    """Serve the metrics at `listen` (host:port); if the port is in use, the node logs it and judges on."""
    registry = CollectorRegistry()
    registry.register(NodeMetrics(node, outbox))
    host, _, port = listen.rpartition(":")
    try:
        start_http_server(int(port), addr=host.strip("[]") or "0.0.0.0", registry=registry)  # noqa: S104 - as configured
    except OSError:
        logger.exception("metrics cannot be served at PKB_NODE_METRICS_LISTEN=%s", listen)


def _one(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric((), value)
    return family
