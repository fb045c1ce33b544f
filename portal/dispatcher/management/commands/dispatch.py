"""The dispatcher: gives queued evaluations to free slots and ends expired leases."""

import logging
import signal
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.db import InterfaceError, OperationalError, close_old_connections
from django.utils import timezone

from evaluator.contract import read_fields
from portal.core import metrics
from portal.core.database_outage import ThrottledLogger
from portal.deliveries.sending import DeliveryWorker
from portal.dispatcher import assign, leases
from portal.exports.files import keep_exports_fresh

_away = ThrottledLogger(logging.getLogger(__name__))

SWEEP_EVERY_S = 2.0
EXPORT_END_S = 5.0


class Command(BaseCommand):
    """`manage.py dispatch`: runs until SIGTERM; several may run at once."""

    help = "Send queued evaluations to free slots until stopped. Several dispatchers may run at the same time."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--interval", type=float, default=0.3, help="seconds between two looks at the queue (default 0.3)"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        read_fields()
        # Apart from the queue: neither an address that does not answer nor an export may keep work from its slot.
        threading.Thread(target=DeliveryWorker().run, args=(stop,), daemon=True).start()
        exporting = threading.Thread(target=keep_exports_fresh, args=(stop,), daemon=True)
        exporting.start()
        metrics.serve()
        try:
            since_sweep = SWEEP_EVERY_S
            while not stop.is_set():
                since_sweep = self._look(since_sweep) + options["interval"]
                stop.wait(options["interval"])
        finally:
            stop.set()
            # It has a process of its own to end.
            exporting.join(EXPORT_END_S)

    def _look(self, since_sweep: float) -> float:
        close_old_connections()
        try:
            if since_sweep >= SWEEP_EVERY_S:
                leases.sweep(timezone.now())
                leases.renew_revisions()
                leases.release_built(timezone.now())
                leases.look_at_nodes(timezone.now())
                leases.end_unserved(timezone.now())
                since_sweep = 0.0
            with metrics.dispatcher_look_seconds.time():
                assign.dispatch_once(timezone.now())
                assign.build_once(timezone.now())
        except (OperationalError, InterfaceError) as error:
            # The database restarts or is busy: nothing was claimed, and the next look finds everything as it was.
            _away.note("nothing is sent to nodes", error)
            metrics.dispatcher_errors.inc()
        return since_sweep
