"""The node: takes assignments, sends progress, delivers reports and sends heartbeats."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from platform import node as host_name
from platform import python_version

import msgspec

from evaluator.contract import (
    VERSION,
    Assignment,
    Backend,
    BuildOrder,
    Cancellation,
    Delivery,
    EvaluationRequest,
    NodeStatus,
    Progress,
    SandboxLevel,
    SlotState,
    SlotStatus,
    Stage,
    SweepPoint,
    Verdict,
    read_fields,
)
from evaluator.errors import Cancelled
from evaluator.hardware import profiles
from evaluator.host import Judge
from evaluator.host.build_ahead import Builders
from evaluator.host.job import ReportProgress
from evaluator.host.machine import facts
from evaluator.node.outbox import Outbox
from evaluator.node.settings import NodeSettings
from evaluator.node.slots import Slot, failure_report
from problems import registry

logger = logging.getLogger(__name__)

MIN_PROGRESS_S = 0.5
PREPARE_RETRY_S = 30.0
DRAIN_BEATS = 3
DRAIN_LOOK_S = 0.5
MOST_REFUSALS = 5
"""So many refused messages, the newest, are named in a heartbeat."""
BUILT_REPORTED_S = 600.0
"""How long heartbeats repeat that something was compiled: one may be lost, and the site counts it once."""


class Node:
    """The slots of this machine, and the messages to the site about them."""

    def __init__(
        self,
        settings: NodeSettings,
        outbox: Outbox,
        *,
        make_judge: Callable[[str], Judge],
        builders: Builders,
    ) -> None:
        self._builders = builders
        self._built: dict[str, float] = {}
        self._reaches_broker = True
        self.ended: Counter[tuple[str, str]] = Counter()
        """Reports written, by profile and verdict."""
        self._settings = settings
        self._outbox = outbox
        self._beat = threading.Event()
        self._stopping = threading.Event()
        self._draining = threading.Event()
        # A lease that was cancelled may belong to work that runs, or to work that has not arrived yet.
        self._cancelled: set[str] = set()
        self._running: dict[str, Assignment | BuildOrder] = {}
        self._slots = tuple(
            Slot(index, profile, make_judge=make_judge, changed=self._beat.set)
            for index, profile in enumerate(settings.profiles)
        )
        self._revisions = {problem.slug: registry.revision(problem.slug) for problem in registry.problems()}

    def start(self) -> None:
        """Begin to send heartbeats and start the judges."""
        read_fields()
        self._outbox.start()
        threading.Thread(target=self._send_heartbeats, name="heartbeat", daemon=True).start()
        for slot in self._slots:
            threading.Thread(target=self._prepare, args=(slot,), name=f"slot-{slot.index}", daemon=True).start()
        threading.Thread(target=self._prepare_builders, name="builders", daemon=True).start()

    def drain(self, *, then: Callable[[], None]) -> None:
        """Take no more work; when running work has ended, call `then` (from a thread). A second call does nothing."""
        if self._draining.is_set():
            return
        self._draining.set()
        self._beat.set()
        logger.info("draining: no more work is taken, %d at hand", len(self._running))
        threading.Thread(target=self._when_drained, args=(then,), name="drain", daemon=True).start()

    def _when_drained(self, then: Callable[[], None]) -> None:
        # The site may have sent work before it knew: that arrives within a few heartbeats.
        self._stopping.wait(DRAIN_BEATS * self._settings.heartbeat_s)
        while self._running and not self._stopping.wait(DRAIN_LOOK_S):
            pass
        logger.info("drained")
        then()

    def stop(self) -> None:
        """End running work: it returns unjudged, and the site has it judged elsewhere."""
        self._stopping.set()
        self._beat.set()

    def close(self) -> None:
        """End every judge and send the last reports."""
        self.stop()
        for slot in self._slots:
            slot.close()
        self._builders.close()
        self._outbox.close()

    def judge(self, assignment: Assignment) -> None:
        """Judge and deliver, unless it was cancelled."""
        request, lease = assignment.request, assignment.lease
        if self._is_unwanted(assignment):
            return
        if assignment.slot >= len(self._slots):
            self.refuse(f"an assignment for slot {assignment.slot}: this node has {len(self._slots)}")
            report = failure_report(request, f"the node has no slot {assignment.slot}")
            self._deliver(Delivery(lease=lease, node=self._settings.name, report=report), request)
            return
        self._running[lease] = assignment
        logger.info("judging %s in slot %d", request.problem, assignment.slot)
        try:
            self._send_progress(assignment, Stage.PREPARING, "the node has taken the work")
            judged = self._slots[assignment.slot].judge(
                assignment, progress=self._progress_sender(assignment), cancelled=lambda: self._must_end(lease)
            )
            report = judged.report
            if lease in self._cancelled:
                logger.info("evaluation %s was cancelled", request.evaluation_id)
                return
            is_returned = (
                self._stopping.is_set() or self._outbox.is_revoked
            ) and report.verdict is Verdict.JUDGE_FAILURE
            if is_returned:
                report = failure_report(request, "the node was stopped by its operator")
            self._deliver(
                Delivery(
                    lease=lease,
                    node=self._settings.name,
                    report=report,
                    is_returned=is_returned,
                    error_log=judged.error_log,
                ),
                request,
            )
        finally:
            del self._running[lease]
            self._beat.set()

    def _is_unwanted(self, work: Assignment | BuildOrder) -> bool:
        if work.lease not in self._cancelled and not self._outbox.is_revoked:
            return False
        logger.warning("%s for evaluation %s dropped", type(work).__name__, work.request.evaluation_id)
        return True

    def _deliver(self, delivery: Delivery, request: EvaluationRequest) -> None:
        """Deliver the report; one that cannot be written becomes JUDGE_ERROR."""
        self.ended[delivery.report.profile, delivery.report.verdict.value] += 1
        logger.info("ended as %s", delivery.report.verdict.value)
        try:
            self._outbox.deliver(delivery)
        except (ValueError, TypeError, OverflowError) as error:
            logger.exception("the report on evaluation %s cannot be written", request.evaluation_id)
            report = failure_report(request, "the report could not be written", verdict=Verdict.JUDGE_ERROR)
            log = f"{error!a}\n{delivery.error_log}".encode("ascii", "replace").decode()
            self._outbox.deliver(msgspec.structs.replace(delivery, report=report, error_log=log))

    def build(self, order: BuildOrder) -> None:
        """Compile ahead of a slot: deliver a verdict that the compiler decides, else report that it is compiled."""
        request, lease = order.request, order.lease
        if self._is_unwanted(order):
            return
        self._running[lease] = order
        logger.info("compiling %s", request.problem)
        try:
            self._send_progress(order, Stage.BUILDING, "compiling before a slot is free")
            report = self._builders.build(request, cancelled=lambda: self._must_end(lease))
            if lease in self._cancelled:
                logger.info("evaluation %s was cancelled", request.evaluation_id)
            elif report is not None:
                self._deliver(Delivery(lease=lease, node=self._settings.name, report=report), request)
            else:
                self._built[lease] = time.monotonic()
        except Cancelled:
            if lease not in self._cancelled:
                self._give_back(order)
        finally:
            del self._running[lease]
            self._beat.set()

    def _give_back(self, order: BuildOrder) -> None:
        """The node stops: another node compiles it, and no try is lost."""
        report = failure_report(order.request, "the node was stopped by its operator")
        self._outbox.deliver(Delivery(lease=order.lease, node=self._settings.name, report=report, is_returned=True))

    def cancel(self, cancellation: Cancellation) -> None:
        """Stop judging or compiling under this lease, now or when it arrives."""
        self._cancelled.add(cancellation.lease)

    def note_broker(self, *, is_reached: bool) -> None:
        """While the node receives nothing it offers nothing: what the site sent would cost its author a try."""
        self._reaches_broker = is_reached
        self._beat.set()

    def refuse(self, text: str) -> None:
        """Log a message of the site that this node does not take, and have the operator told of it."""
        logger.warning("%s", text)
        self._outbox.note_refusal(text)

    @property
    def status(self) -> NodeStatus:
        """The next heartbeat."""
        return NodeStatus(
            node=self._settings.name,
            slots=tuple(self._slot_status(slot) for slot in self._slots),
            sandbox=self._sandbox(),
            backends=self._backends(),
            revisions=self._revisions,
            environment=_environment(),
            # Until the site has the report: a lease that ends earlier would have it judged again.
            running=(
                *(work.request.evaluation_id for work in list(self._running.values())),
                *self._outbox.spool.evaluations,
            ),
            builders=self._builders.offered if self._takes_work else 0,
            built=self._lately_built(),
            refusals=tuple(self._outbox.refusals(most=MOST_REFUSALS)),
        )

    def _lately_built(self) -> tuple[str, ...]:
        since = time.monotonic() - BUILT_REPORTED_S
        for lease, at in list(self._built.items()):
            if at < since:
                del self._built[lease]
        return tuple(self._built)

    @property
    def _takes_work(self) -> bool:
        return self._reaches_broker and not (
            self._stopping.is_set() or self._draining.is_set() or self._outbox.is_revoked
        )

    def _slot_status(self, slot: Slot) -> SlotStatus:
        """The slot's own status; once the node stops, none takes work, and one in quarantine stays there.

        While the node drains, a busy slot stays busy: the site would take a stopped one for gone.
        """
        status = slot.status
        if status.state is SlotState.FREE and not self._reaches_broker:
            return msgspec.structs.replace(status, state=SlotState.STARTING, note="the node does not reach its broker")
        is_ending = (
            self._stopping.is_set()
            or self._outbox.is_revoked
            or (self._draining.is_set() and status.state is not SlotState.BUSY)
        )
        if not is_ending or status.state is SlotState.QUARANTINED:
            return status
        return msgspec.structs.replace(status, state=SlotState.STOPPED, note="the node was stopped by its operator")

    def _sandbox(self) -> SandboxLevel:
        """The weakest level of all slots, on which the site can rely."""
        levels = list(SandboxLevel)
        return levels[max(levels.index(slot.sandbox) for slot in self._slots)]

    def _backends(self) -> tuple[Backend, ...]:
        offered = {backend for name in self._settings.profiles for backend in profiles.get(name).backends}
        return tuple(backend for backend in Backend if backend in offered)

    def _must_end(self, lease: str) -> bool:
        return lease in self._cancelled or self._stopping.is_set() or self._outbox.is_revoked

    def _send_heartbeats(self) -> None:
        while not self._stopping.is_set():
            self._beat.clear()
            self._outbox.send_status(self.status)
            self._beat.wait(self._settings.heartbeat_s)
        self._outbox.send_status(self.status)

    def _prepare(self, slot: Slot) -> None:
        slot.prepare()
        while slot.status.note and not self._stopping.wait(PREPARE_RETRY_S):
            slot.prepare()

    def _prepare_builders(self) -> None:
        self._builders.prepare()
        self._beat.set()

    def _send_progress(
        self,
        work: Assignment | BuildOrder,
        stage: Stage,
        detail: str,
        fraction: float | None = None,
        points: tuple[SweepPoint, ...] = (),
    ) -> None:
        self._outbox.send_progress(
            Progress(
                evaluation_id=work.request.evaluation_id,
                lease=work.lease,
                stage=stage,
                detail=detail,
                fraction=fraction,
                points=points,
            )
        )

    def _progress_sender(self, assignment: Assignment) -> ReportProgress:
        """Sends progress: every stage and point, and within a stage at most as often as people can read."""
        last_stage, last_s, known = Stage.PREPARING, time.monotonic(), tuple[SweepPoint, ...]()

        def send(
            stage: Stage, detail: str, fraction: float | None = None, points: tuple[SweepPoint, ...] = (), /
        ) -> None:
            nonlocal last_stage, last_s, known
            now = time.monotonic()
            if stage is last_stage and now - last_s < MIN_PROGRESS_S and not points:
                return
            last_stage, last_s, known = stage, now, points or known
            self._send_progress(assignment, stage, detail, fraction, known)

        return send


def _environment() -> dict[str, str]:
    """Facts about this machine for operators, in plain strings."""
    return {"pkb": VERSION, "host": host_name(), "python": python_version(), "torch": facts.version("torch")}
