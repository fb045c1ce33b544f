"""The delivery worker: threads of the dispatcher that deliver, bounded in total and per account."""

import logging
import threading
from collections import Counter

from django.db import DatabaseError, InterfaceError, close_old_connections, connection
from django.utils import timezone

from portal.core.database_outage import ThrottledLogger
from portal.deliveries.models import Endpoint
from portal.deliveries.sending import deliver_batch, due_endpoints

AT_ONCE = 32
"""The endpoints that a process serves at the same time."""
PER_ACCOUNT = 4
"""How many of these may be of one account and its organisations: slow receivers of one leave room for the others."""
LOOK_EVERY_S = 1.0
logger = logging.getLogger(__name__)


class DeliveryWorker:
    """Serves the endpoints that are due until stopped."""

    def __init__(self) -> None:
        self._payers: dict[int, int] = {}
        self._changed = threading.Condition()
        self._away = ThrottledLogger(logger)

    @property
    def is_busy(self) -> bool:
        return bool(self._payers)

    def run(self, stop: threading.Event) -> None:
        """Look for what is due, every second and whenever an endpoint was served."""
        while not stop.is_set():
            close_old_connections()
            try:
                self.look()
            except (DatabaseError, InterfaceError) as error:
                self._away.note("deliveries wait", error)
            with self._changed:
                self._changed.wait(LOOK_EVERY_S)

    def look(self) -> int:
        """Begin to serve as many endpoints as there is room for; returns how many."""
        with self._changed:
            busy, counts = set(self._payers), Counter(self._payers.values())
        full = [payer for payer, count in counts.items() if count >= PER_ACCOUNT]
        begun, now = 0, timezone.now()
        # More than there is room for: the first may all be of one account.
        for endpoint in due_endpoints(now, limit=10 * AT_ONCE, without=full, busy=busy):
            if len(busy) + begun < AT_ONCE and counts[endpoint.payer] < PER_ACCOUNT:
                begun += 1
                counts[endpoint.payer] += 1
                with self._changed:
                    self._payers[endpoint.pk] = endpoint.payer
                # A daemon: the process ends without waiting for a receiver, and its claims expire.
                threading.Thread(target=self._serve, args=(endpoint,), daemon=True).start()
        return begun

    def _serve(self, endpoint: Endpoint) -> None:
        try:
            deliver_batch(endpoint, timezone.now())
        except (DatabaseError, InterfaceError) as error:
            self._away.note("a delivery waits", error)
        except Exception:
            # One receiver must not stop the deliveries to all others. Its claim expires.
            logger.exception("delivery to endpoint %s failed", endpoint.pk)
        finally:
            connection.close()
            with self._changed:
                del self._payers[endpoint.pk]
                self._changed.notify_all()
