"""Sends a node's messages to the site. Heartbeats may be lost; reports wait on disk until the site has received them.

A broker may die with a report that it has accepted. So a report is kept until the site's receipt, and sent again if
that does not come.
"""

import logging
import math
import threading
import time
from pathlib import Path

from celery import Celery

from evaluator import uploads
from evaluator.broker.queues import address_of, site_queue
from evaluator.contract import Delivery, NodeStatus, Progress, Receipt, Stored, TaskName, Upload
from evaluator.node.report_size import fitted
from evaluator.node.spool import Spool

logger = logging.getLogger(__name__)

RETRY_S = 2.0
STATUS_VALID_S = 20.0
"""A heartbeat that waited longer says nothing about its node any more: the site ignores it."""
PROGRESS_VALID_S = 60.0
_REFUSALS = 3
"""How often a broker that accepts other messages refuses a report before the report is set aside."""
_FAILURES_OF_A_ROUND = 2
_PAUSE_OF_UPLOADS_S = 60.0
_LOOK_S = 5.0
"""How often receipts are looked after."""


class Outbox:
    """Sends messages, and keeps reports in `folder` until they are received; a new process sends what an old one left.

    `key` goes with every message: a waiting report is sent with the node's present key.
    `files_within` is the folder of artefacts where it is a folder.
    """

    def __init__(self, app: Celery, folder: Path, *, key: str, files_within: str = "") -> None:
        self._app = app
        self._key = key
        self._files_within = files_within
        self._site = address_of(site_queue(app.conf.broker_url, declared=False))
        self._folder = folder
        self._spool = Spool(folder)
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._taken_at_s = -math.inf
        self._no_upload_before_s = -math.inf
        self._refusals: dict[Path, tuple[int, float]] = {}
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def start(self) -> None:
        """Begin to send reports."""
        self._thread.start()

    def close(self) -> None:
        """Try once more to send waiting reports, then stop; the others stay on disk."""
        self._closed.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=10)

    def send_status(self, status: NodeStatus) -> None:
        """Send a heartbeat; one that fails is dropped."""
        self._publish(TaskName.RECORD_NODE_STATUS, status.to_json(), expires_s=STATUS_VALID_S)

    def send_progress(self, progress: Progress) -> None:
        """Send the progress of a judge; a message that fails is dropped."""
        self._publish(TaskName.RECORD_PROGRESS, progress.to_json(), expires_s=PROGRESS_VALID_S)

    def deliver(self, delivery: Delivery, *, upload: Upload | None = None) -> None:
        """Keep a report until it is received; when this returns, it survives the end of this process.

        A report that is too large loses parts of its evidence, and says so. With `upload` it is uploaded, and a message
        names it; if that fails, it goes by the broker. If the folder takes nothing, it goes by the broker at once.

        Raises:
            OSError: neither folder nor broker took it.
            ValueError: it cannot be written, or the site could not read it, as with a number that JSON does not have.
        """
        kept = fitted(delivery)
        Delivery.from_json(kept.to_json())
        self._keep_or_send(kept, upload)

    def forget(self, receipt: Receipt) -> None:
        """Remove a report that the site has received."""
        self._spool.forget(receipt.sha256)

    def unsent_since(self) -> list[float]:
        """When each report that is not sent yet was written, in seconds since the epoch."""
        return self._spool.unsent_since()

    def refused(self) -> int:
        """How many reports are set aside for the operator."""
        return self._spool.refused()

    @property
    def evaluations(self) -> tuple[str, ...]:
        """The evaluations whose reports this process has kept and the site has not received yet."""
        return self._spool.evaluations

    def _keep_or_send(self, delivery: Delivery, upload: Upload | None = None) -> None:
        """Keep a report, or send it at once if the folder does not take it; raises OSError if both fail."""
        text = delivery.to_json()
        try:
            self._spool.write(delivery.report.evaluation_id, text, upload)
        except OSError as error:
            logger.warning("the spool folder %s takes no report: %s", self._folder, error)
            if not self._publish(TaskName.RECORD_DELIVERY, text, expires_s=None):
                raise
            return
        self._wake.set()

    def _run(self) -> None:
        while True:
            try:
                all_sent = self._send_spooled()
            except Exception:
                # Without this thread the node would judge on, and none of its reports would arrive.
                logger.exception("waiting reports could not be sent")
                all_sent = False
            if self._closed.is_set():
                return
            self._wake.wait(self._pause_s(all_sent=all_sent))
            self._wake.clear()

    def _pause_s(self, *, all_sent: bool) -> float | None:
        """How long to wait before the next round; None for until there is something to send."""
        if not all_sent:
            return RETRY_S
        return _LOOK_S if self._spool.awaits_receipts() else None

    def _send_spooled(self) -> bool:
        """Send the waiting reports, the oldest first; whether all are sent.

        A refused report does not delay the others: it is tried again after them. It is set aside once the broker has
        accepted another message after each of several refusals.
        """
        self._spool.take_back()
        left = refused = 0
        for path in self._spool.unsent():
            try:
                # If killed between the two lines, the node sends the report again; the site records it once.
                if (digest := self._send_report(path)) is not None:
                    self._refusals.pop(path, None)
                    self._spool.keep_for_receipt(path, digest)
                    continue
                refused += 1
                self._note_refusal(path)
            except ValueError:
                logger.exception("the report %s is damaged; it is set aside", path)
                self._spool.set_aside(path)
                continue
            except OSError as error:
                logger.warning("the report %s waits: %s", path, error)
            left += 1
            if refused >= _FAILURES_OF_A_ROUND:
                break  # the broker is away
        return not left

    def _send_report(self, path: Path) -> str | None:
        """The SHA-256 of a report's text if the broker took it, else None.

        Raises:
            OSError: it cannot be read now.
            ValueError: it is damaged.
        """
        text, digest = self._spool.read(path)
        stored = self._stored(path, text, digest)
        if stored is not None:
            is_taken = self._publish(TaskName.RECORD_STORED, stored.to_json(), expires_s=None)
        else:
            is_taken = self._publish(TaskName.RECORD_DELIVERY, text, expires_s=None)
        return digest if is_taken else None

    def _stored(self, path: Path, text: str, digest: str) -> Stored | None:
        """The message that names an uploaded report; None where the report goes by the broker."""
        permission = path.with_suffix(".upload")
        if not permission.exists():
            return None
        delivery = Delivery.from_json(text)
        content = text.encode()
        try:
            upload = self._uploaded(permission.read_text(encoding="utf-8"), content)
        except (uploads.UploadRefused, ValueError) as error:
            logger.warning("a report goes by the broker: %s", error)
            permission.unlink()
            return None
        return Stored(
            lease=delivery.lease,
            node=delivery.node,
            evaluation_id=delivery.report.evaluation_id,
            key=upload.key,
            sha256=digest,
            size_bytes=len(content),
        )

    def _uploaded(self, permission: str, content: bytes) -> Upload:
        """Put `content` where `permission` says; raises ContractError and UploadRefused.

        After a refusal the storage is left alone for a while: one that is silent would delay every report.
        """
        if time.monotonic() < self._no_upload_before_s:
            raise uploads.UploadRefused("the storage has just refused another one")
        upload = Upload.from_json(permission)
        try:
            uploads.put(upload, content, within=self._files_within)
        except uploads.UploadRefused:
            self._no_upload_before_s = time.monotonic() + _PAUSE_OF_UPLOADS_S
            raise
        return upload

    def _note_refusal(self, path: Path) -> None:
        """Count a failure to send `path`, if another message was accepted since the last; finally set it aside."""
        counted, before_s = self._refusals.get(path, (0, math.inf))
        counted += self._taken_at_s > before_s
        self._refusals[path] = (counted, time.monotonic())
        if counted >= _REFUSALS:
            del self._refusals[path]
            self._set_aside(path)

    def _set_aside(self, path: Path) -> None:
        """Keep a refused report for the operator, and send only its verdict; raises OSError and ValueError."""
        size = path.stat().st_size
        logger.error("the broker refuses the report %s of %d bytes; it is set aside", path, size)
        text, _digest = self._spool.read(path)
        bare = fitted(Delivery.from_json(text), most_bytes=0)
        if len(bare.to_json()) < size:
            self._keep_or_send(bare)
        self._spool.set_aside(path)

    def _publish(self, name: TaskName, text: str, *, expires_s: float | None) -> bool:
        try:
            self._app.send_task(name.value, args=(text, self._key), expires=expires_s, ignore_result=True, **self._site)
        except Exception as error:  # noqa: BLE001 - transports raise their own errors, and one message must not stop the others
            logger.warning("the broker did not accept %s: %s", name.value, error)
            return False
        self._taken_at_s = time.monotonic()
        return True
