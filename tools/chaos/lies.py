"""What a node says that is not true. It has a node's key and every lease that it was ever given."""

import random
import secrets
import threading
import time
import uuid
from pathlib import Path

import msgspec

from evaluator.contract import (
    SCORE_RULE,
    Delivery,
    EvaluationReport,
    NodeMessage,
    NodeStatus,
    Progress,
    Stage,
    Timing,
    Verdict,
)
from evaluator.node.outbox import Outbox
from evaluator.node.site import Site

FORGED_LOW = 1000.0
"""A score that no source of the test asks for: wherever it is found, a lie was believed."""

WITHHELD = 0.1
"""So often it keeps a report to itself, and claims in its heartbeats that it still judges."""

LEASE_ENDS_S = 90.0
"""After so long a lease without a report is gone, at the deadline of the test's site, whatever heartbeats claim."""

_KEPT = 200


class LyingOutbox(Outbox):
    """Sends lies about every report before and after it, and sometimes keeps the report itself back."""

    def __init__(self, site: Site, folder: Path, *, randomness: str) -> None:
        super().__init__(site, folder)
        self._draw = random.Random(randomness)
        # Apart, so that what happens to the n-th report does not depend on how many heartbeats went before it.
        self._draw_claims = random.Random(f"{randomness} claims")
        self._old: list[Delivery] = []
        self._seen: list[str] = []

    def deliver(self, delivery: Delivery) -> None:
        """Forged reports under leases that are not valid for them, then mostly the true one."""
        forged = _forged(delivery.report)
        self._seen = [*self._seen[-_KEPT:], delivery.report.evaluation_id]
        replace = msgspec.structs.replace
        lies = [
            # Of its own evaluation under a lease that nobody gave, and in another node's name.
            replace(delivery, report=forged, lease=secrets.token_urlsafe(32)),
            replace(delivery, report=forged, node="node-00"),
            # Of its own evaluation under its own lease, and about another revision, source, profile and problem.
            replace(delivery, report=replace(forged, revision="0" * 16)),
            replace(delivery, report=replace(forged, source_digest="0" * 64)),
            replace(delivery, report=replace(forged, profile="b200x8")),
            replace(delivery, report=replace(forged, problem="allgather")),
            # Of somebody else's evaluation under its own lease.
            replace(delivery, report=replace(forged, evaluation_id=str(uuid.uuid4()))),
        ]
        # Leases of earlier work: used up, or taken back when the work went to another node.
        lies += [replace(old, report=_forged(old.report)) for old in self._old[-3:]]
        for lie in self._draw.sample(lies, 3):
            super().deliver(lie)
        # The site accepts what the holder of a valid lease reports about its own work, whichever of its
        # reports comes first. So this node lies only once its lease has certainly ended: used up, or taken back at the
        # deadline.
        if self._draw.random() >= WITHHELD:
            super().deliver(delivery)
        timer = threading.Timer(LEASE_ENDS_S, self._lie_again, (delivery,))
        timer.daemon = True
        timer.start()

    def _lie_again(self, delivery: Delivery) -> None:
        self._old = [*self._old[-_KEPT:], delivery]
        super().deliver(msgspec.structs.replace(delivery, report=_forged(delivery.report)))

    def send_status(self, status: NodeStatus) -> None:
        """A heartbeat that claims everything it has heard of, one under another's name, and bytes that are none."""
        leases = tuple(old.lease for old in self._old)
        claims = msgspec.structs.replace(status, running=(*status.running, *self._seen), built=leases)
        super().send_status(claims)
        super().send_status(msgspec.structs.replace(status, node="node-00", slots=(), running=()))
        for kind in NodeMessage:
            self._send_or_drop(kind, self._draw_claims.choice(("", "{}", "[1, 2", '{"lease": "\\u0000"}', "null")))
        for seen in self._seen[-3:]:
            self.send_progress(Progress(evaluation_id=seen, lease=secrets.token_urlsafe(32), stage=Stage.TIMING))


def _forged(report: EvaluationReport) -> EvaluationReport:
    """The same report as a pass with a score beyond everybody's."""
    low = FORGED_LOW
    timing = Timing(score=low, low=low, high=low, blocks=(low,) * 12, sizes=(), rule=SCORE_RULE)
    return msgspec.structs.replace(
        report,
        verdict=Verdict.PASSED,
        timing=timing if report.mode.is_scored else None,
        message=f"forged at {time.time():.0f}",
    )
