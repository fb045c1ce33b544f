"""What processes of the site count for Prometheus, under the names that dashboards and alerts use.

Labels come from closed sets alone: profiles, verdicts, stages, routes. Nothing that a visitor types becomes one, and
none names a person. What can be read from the database is not counted here but asked for
(`portal.operations.metrics_page`).
"""

import logging
import os

from django.conf import settings
from django.db import transaction
from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    multiprocess,
    start_http_server,
)

from evaluator.contract import EvaluationReport

logger = logging.getLogger(__name__)

MULTIPROCESS_DIR = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder in which the processes of one service put their counts together."""

_LONG_S = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600)
_STAGE_S = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)

# When a counter began is a series more for each, which nothing here asks for.
disable_created_metrics()  # type: ignore[no-untyped-call]

http_request_seconds = Histogram(
    "pkb_http_request_seconds",
    "Time from a complete request to its response, by the route's name.",
    ("method", "route", "status"),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)
queued = Counter("pkb_evaluations_queued", "Evaluations of people that were put into the queue.", ("profile", "mode"))
ended = Counter("pkb_evaluations_ended", "Evaluations that ended, by verdict or CANCELLED.", ("profile", "verdict"))
wait_seconds = Histogram(
    "pkb_evaluation_wait_seconds", "Time from queueing to the start of judging.", ("profile",), buckets=_LONG_S
)
judging_seconds = Histogram(
    "pkb_evaluation_judging_seconds", "Time from the start of judging to its end.", ("profile",), buckets=_LONG_S
)
rank_seconds = Counter("pkb_rank_seconds", "Ranks times seconds of judging: GPU-seconds on GPU profiles.", ("profile",))
stage_seconds = Histogram(
    "pkb_stage_seconds", "Duration of the stages of evaluations, from reports.", ("profile", "stage"), buckets=_STAGE_S
)
failed_tries = Counter(
    "pkb_failed_tries",
    "Tries that ended with a failure of ours: a verdict of ours, or a lost lease.",
    ("profile", "reason"),
)
dispatched = Counter("pkb_dispatched", "Messages to nodes that carry work.", ("kind",))
refused_messages = Counter(
    "pkb_refused_messages", "Ignored messages from nodes, by kind and reason.", ("kind", "reason")
)
heartbeats = Counter("pkb_heartbeats", "Recorded heartbeats of nodes.")
dispatcher_look_seconds = Histogram(
    "pkb_dispatcher_look_seconds",
    "Duration of one pass of a dispatcher over the queue.",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 30),
)
dispatcher_errors = Counter("pkb_dispatcher_database_errors", "Passes of a dispatcher that a database error ended.")


def count_report(report: EvaluationReport, *, is_our_failure: bool) -> None:
    """Count the stages of a report, and a failed try of ours, once the open transaction is committed."""
    transaction.on_commit(lambda: _count_report(report, is_our_failure=is_our_failure))


def _count_report(report: EvaluationReport, *, is_our_failure: bool) -> None:
    if is_our_failure:
        failed_tries.labels(report.profile, report.verdict.value).inc()
    for entry in report.stages:
        stage_seconds.labels(report.profile, entry.stage.value).observe(entry.seconds)


def registry() -> CollectorRegistry:
    """What this process counted, or all processes of its service where they count into one folder."""
    if MULTIPROCESS_DIR not in os.environ:
        return REGISTRY
    merged = CollectorRegistry()
    multiprocess.MultiProcessCollector(merged)  # type: ignore[no-untyped-call]
    return merged


def port() -> int:
    return int(settings.METRICS_LISTEN.rpartition(":")[2])


def serve() -> None:
    """Serve what this process counts where `PKB_METRICS_LISTEN` says; for dispatchers."""
    if not settings.METRICS_LISTEN:
        return
    host = settings.METRICS_LISTEN.rpartition(":")[0].strip("[]")
    try:
        start_http_server(port(), addr=host or "0.0.0.0", registry=registry())  # noqa: S104 - the operator says where
    except OSError:
        # Judging must go on. The operator only has to learn that the metrics are not served.
        logger.exception("metrics cannot be served at PKB_METRICS_LISTEN=%s", settings.METRICS_LISTEN)
