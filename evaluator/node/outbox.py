"""What a node sends to the site. Signs of life may get lost; reports wait on disk until the broker has taken them."""

import logging
import os
import threading
import uuid
from pathlib import Path

from celery import Celery
from kombu.exceptions import KombuError

from evaluator.broker.queues import address_of, site_queue
from evaluator.contract import Delivery, Message, NodeStatus, Progress, TaskName

logger = logging.getLogger(__name__)

RETRY_S = 2.0
STATUS_VALID_S = 60.0


class Outbox:
    """Sends messages, and keeps reports in `folder` until they are sent; a new process sends what an old one left."""

    def __init__(self, app: Celery, folder: Path) -> None:
        self._app = app
        self._site = address_of(site_queue(app.conf.broker_url, declared=False))
        self._folder = folder
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def start(self) -> None:
        """Begin to send reports."""
        self._thread.start()

    def close(self) -> None:
        """Try once more to send what is left, then end; what cannot be sent stays on disk."""
        self._closed.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=10)

    def send_status(self, status: NodeStatus) -> None:
        """Send a heartbeat, or let it go."""
        self._send(TaskName.RECORD_NODE_STATUS, status)

    def send_progress(self, progress: Progress) -> None:
        """Send how far a judge is, or let it go."""
        self._send(TaskName.RECORD_PROGRESS, progress)

    def deliver(self, delivery: Delivery) -> None:
        """Keep a report until it is sent; when this returns it survives the death of this process."""
        path = self._folder / f"{uuid.uuid4().hex}.json"
        draft = path.with_suffix(".draft")
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(delivery.to_json())
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        self._wake.set()

    def _run(self) -> None:
        while True:
            all_sent = self._send_spooled()
            if self._closed.is_set():
                return
            self._wake.wait(None if all_sent else RETRY_S)
            self._wake.clear()

    def _send_spooled(self) -> bool:
        """Send the waiting reports, the oldest first; whether all are sent."""
        for path in sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns):
            # Killed between the two lines, the node sends the report again; the site takes it once.
            if not self._publish(TaskName.RECORD_DELIVERY, path.read_text(encoding="utf-8"), expires_s=None):
                return False
            path.unlink()
        return True

    def _send(self, name: TaskName, message: Message) -> None:
        self._publish(name, message.to_json(), expires_s=STATUS_VALID_S)

    def _publish(self, name: TaskName, text: str, *, expires_s: float | None) -> bool:
        try:
            self._app.send_task(name.value, args=(text,), expires=expires_s, ignore_result=True, **self._site)
        except (KombuError, OSError) as error:
            logger.warning("the broker did not take %s: %s", name.value, error)
            return False
        return True
