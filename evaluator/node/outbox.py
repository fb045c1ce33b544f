"""Sends a node's messages to the site. Heartbeats may be lost; reports wait on disk until the site has received them.

Each kind has a thread of its own. So a report never waits behind heartbeats, and a judge waits for none of them.
"""

import contextlib
import logging
import threading
from collections import Counter, deque
from pathlib import Path

from evaluator.contract import ContractError, Delivery, EvaluationReport, NodeMessage, NodeStatus, Progress, Verdict
from evaluator.contract.report import RequestFields
from evaluator.node import spool
from evaluator.node.report_size import fitted
from evaluator.node.site import KeyRefused, NotReceived, Refused, Revoked, Site
from evaluator.node.spool import Spool

logger = logging.getLogger(__name__)

RETRY_S, MOST_RETRY_S = 2.0, 30.0
"""How long reports wait after a round in which one was not received: twice as long after each, up to the second."""
_FAILURES_OF_A_ROUND = 2
_REFUSALS = 5
"""So many refused messages are named in heartbeats."""


class Outbox:
    """Sends to `site`, and keeps reports in `folder` until it has them; a new process sends what an old one left."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        self._folder = folder
        self.spool = Spool(folder)
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._failures: Counter[str] = Counter()
        self._progress: dict[str, Progress] = {}
        self._has_progress = threading.Event()
        self._not_understood: deque[str] = deque(maxlen=_REFUSALS)
        self._sender = threading.Thread(target=self._run, name="reports", daemon=True)
        self.is_revoked = False
        """Whether the site has said that it takes nothing of this node any more."""

    def start(self) -> None:
        """Begin to send."""
        self._sender.start()
        threading.Thread(target=self._run_progress, name="progress", daemon=True).start()

    def close(self) -> None:
        """Try once more to send waiting reports, then stop; the others stay on disk."""
        self._closed.set()
        self._wake.set()
        self._has_progress.set()
        if self._sender.ident is not None:
            self._sender.join(timeout=10)

    def send_status(self, status: NodeStatus) -> None:
        """Send a heartbeat; one that fails is dropped, because the next says the same."""
        self._send_or_drop(NodeMessage.HEARTBEAT, status.to_json())

    def send_progress(self, progress: Progress) -> None:
        """Have the progress of a judge sent soon, unless there is news of the same evaluation before that."""
        self._progress[progress.lease] = progress
        self._has_progress.set()

    def deliver(self, delivery: Delivery) -> None:
        """Keep a report until it is received; when this returns, it survives the end of this process.

        A report that is too large loses parts of its evidence, and says so. If the folder takes nothing, the report is
        sent at once.

        Raises:
            OSError: neither folder nor site took it.
            ValueError: it cannot be written, or the site could not read it, as with a number that JSON does not have.
        """
        kept = fitted(delivery)
        Delivery.from_json(kept.to_json())
        self._keep_or_send(kept)

    def note_refusal(self, text: str) -> None:
        """Have the operator told of a message that this node does not take."""
        self._not_understood.append(text)

    def refusals(self, *, most: int = 1000) -> list[str]:
        """Which messages were refused and why, the newest last: reports that are kept, then what came from the site."""
        return [*spool.refusals(self._folder, most=most), *self._not_understood][-most:]

    def _keep_or_send(self, delivery: Delivery) -> None:
        text = delivery.to_json()
        try:
            self.spool.write(delivery.report.evaluation_id, text)
        except OSError as error:
            logger.warning("the spool folder %s takes no report: %s", self._folder, error)
            try:
                self.site.send(NodeMessage.REPORT, text)
            except (NotReceived, Refused) as reason:
                raise OSError(f"neither {self._folder} nor the site took the report: {reason}") from error
            return
        self._wake.set()

    def _run(self) -> None:
        pause_s = RETRY_S
        while True:
            try:
                all_sent = self._send_spooled()
            except Exception:
                # Without this thread the node would judge on, and none of its reports would arrive.
                logger.exception("waiting reports could not be sent")
                all_sent = False
            if self._closed.is_set():
                return
            pause_s = RETRY_S if all_sent else min(2 * pause_s, MOST_RETRY_S)
            self._wake.wait(None if all_sent else pause_s)
            self._wake.clear()

    def _send_spooled(self) -> bool:
        """Send the waiting reports, the oldest first; whether all are received or set aside.

        One that fails while others pass, as by an error of the site's that it alone meets, goes last from then on.
        """
        waiting = sorted(self.spool.waiting(), key=lambda path: self._failures[path.stem])
        failed = 0
        for path in waiting:
            try:
                self._send_report(path)
            except OSError as error:
                logger.warning("the report %s waits: %s", path, error)
                failed += 1
            except (KeyRefused, Revoked) as error:
                self.is_revoked = isinstance(error, Revoked)
                return False
            except NotReceived:
                self._failures[path.stem] += 1
                failed += 1
                if failed >= _FAILURES_OF_A_ROUND:
                    return False
            else:
                del self._failures[path.stem]
        return not failed

    def _send_report(self, path: Path) -> None:
        """Send a report and remove it, or set it aside; raises OSError and NotReceived."""
        try:
            text = self.spool.read(path)
        except ValueError as error:
            logger.error("the report %s is damaged; it is set aside", path)  # noqa: TRY400 - the text says all
            self.spool.set_aside(path, f"damaged on the disk: {error}")
            return
        try:
            self.site.send(NodeMessage.REPORT, text)
        except Refused as error:
            logger.error("the site refuses the report %s: %s", path, error)  # noqa: TRY400 - as above
            self._send_instead(text, error)
            self.spool.set_aside(path, str(error))
        else:
            # If killed between the two lines, the node sends the report again; the site records it once.
            self.spool.remove(path)

    def _send_instead(self, text: str, refusal: Refused) -> None:
        """Have the evaluation end all the same: a report that is too large goes without its evidence, others fail."""
        with contextlib.suppress(ContractError):  # an older version of the node wrote it
            said = Delivery.from_json(text)
            if refusal.status == 413 and len((bare := fitted(said, most_bytes=0)).to_json()) < len(text):
                self._keep_or_send(bare)
            elif refusal.status == 422 and said.report.verdict is not Verdict.JUDGE_FAILURE:
                kept = {name: getattr(said.report, name) for name in RequestFields.__annotations__}
                message = f"The site refused the report. {refusal}"[:1000]
                report = EvaluationReport(**kept, verdict=Verdict.JUDGE_FAILURE, message=message)
                self._keep_or_send(Delivery(lease=said.lease, node=said.node, report=report))

    def _run_progress(self) -> None:
        while not self._closed.is_set():
            self._has_progress.wait()
            self._has_progress.clear()
            for lease in list(self._progress):
                self._send_or_drop(NodeMessage.PROGRESS, self._progress.pop(lease).to_json())

    def _send_or_drop(self, kind: NodeMessage, text: str) -> None:
        try:
            self.site.send(kind, text)
            self.is_revoked = False
        except Revoked:
            self.is_revoked = True
        except NotReceived:
            pass
        except Refused as error:
            logger.warning("the site refuses this node's %s: %s", kind.value, error)
            self.note_refusal(f"{kind.value}: {error}")
        except Exception:
            # Without this thread the site would take the node for dead.
            logger.exception("a message of kind %s could not be sent", kind.value)
