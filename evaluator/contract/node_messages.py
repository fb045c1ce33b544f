"""Messages between the site and its nodes.

The site sends work through the broker. What a node says (progress, heartbeats, reports) it sends to the site over
HTTPS, and the answer to each is its receipt.
"""

from enum import StrEnum
from typing import Annotated, Self

from msgspec import Meta

from evaluator.contract.base import (
    MOST_BUILDERS,
    MOST_POINTS,
    MOST_REPORT_BYTES,
    MOST_SLOTS,
    SCHEMA_VERSION,
    ContractError,
    Count,
    Message,
    Name,
)
from evaluator.contract.report import EvaluationReport, SandboxLevel, Stage, SweepPoint
from evaluator.contract.request import Backend, EvaluationRequest

MOST_BYTES = 16 * 1024**2
"""Of a node's report as JSON. The site reads no more of one."""

MOST_STATUS_BYTES = 128 * 1024
"""Of other messages: a heartbeat of 64 slots with their notes has about half of that."""

MOST_COMPRESSED_BYTES = 4_000_000
"""Of a node's message as it is sent, compressed with gzip: what every proxy of the manual lets pass."""


def node_queue(node: str) -> str:
    """The queue on which the node called `node` receives its work."""
    return f"node.{node}"


class TaskName(StrEnum):
    """Celery tasks that the site sends to a node, by the name both sides know; each takes one JSON text."""

    JUDGE = "node.judge"
    BUILD = "node.build"
    CANCEL = "node.cancel"


class NodeMessage(StrEnum):
    """What a node sends to the site, by the last part of its address: `/api/v1/nodes/NAME/report/`."""

    HEARTBEAT = "heartbeat"
    PROGRESS = "progress"
    REPORT = "report"


class Assignment(Message, frozen=True, kw_only=True, omit_defaults=True):
    """What the dispatcher sends to a node: an evaluation for one slot, under a lease.

    `lease` is unguessable; its holder may report on this evaluation only. `request_id` identifies the web request that
    asked for the evaluation, only for log lines.
    """

    lease: str
    slot: int
    request: EvaluationRequest
    request_id: str = ""


class BuildOrder(Message, frozen=True, kw_only=True, omit_defaults=True):
    """What the dispatcher sends to a node's builders: an evaluation to compile before a slot is free, under a lease."""

    lease: str
    request: EvaluationRequest
    request_id: str = ""


class Cancellation(Message, frozen=True, kw_only=True):
    """The site asks a node to stop judging `evaluation_id`."""

    lease: str
    evaluation_id: str


class Receipt(Message, frozen=True, kw_only=True):
    """The answer of a site of `version` to a node's message that it has taken, named by the SHA-256 of its JSON."""

    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
    version: Name = ""


class Progress(Message, frozen=True, kw_only=True):
    """Progress of a judge: the stage, a description, and the fraction done (0 to 1, None where unknown).

    `points` are all that a sweep has measured in this try: a message that is lost costs none.
    """

    evaluation_id: str
    lease: str
    stage: Stage
    detail: str = ""
    fraction: Annotated[float, Meta(ge=0, le=1)] | None = None
    points: Annotated[tuple[SweepPoint, ...], Meta(max_length=MOST_POINTS)] = ()


class Delivery(Message, frozen=True, kw_only=True):
    """What a node sends back when an evaluation has ended.

    `is_returned` returns work that was not judged because the node stops. That is no failure, and costs the
    evaluation none of its tries. `error_log` holds errors of the judge: for the operator, never for the author,
    because it may show what submissions must not know.
    """

    lease: str
    node: str
    report: EvaluationReport
    is_returned: bool = False
    error_log: str = ""

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The delivery that `text` holds; raises ContractError."""
        if len(text) > MOST_REPORT_BYTES:
            raise ContractError(f"{cls.__name__}: it has {len(text):,} characters, more than {MOST_REPORT_BYTES:,}")
        return super().from_json(text)


class SlotState(StrEnum):
    """Whether a slot can take work."""

    STARTING = "starting"
    FREE = "free"
    BUSY = "busy"
    QUARANTINED = "quarantined"
    STOPPED = "stopped"


class SlotStatus(Message, frozen=True, kw_only=True):
    """One slot of a node as the node sees it."""

    index: Annotated[int, Meta(ge=0, lt=MOST_SLOTS)]
    profile: Name
    state: SlotState
    evaluation_id: str | None = None
    note: str = ""


class NodeStatus(Message, frozen=True, kw_only=True):
    """A node's heartbeat: who it is, what it offers and on what it runs.

    `revisions` maps the slugs of the problems installed there to their revisions. `builders` is how many evaluations
    it can compile during judging, `built` the leases under which it has recently compiled one. `refusals` says for the
    operator which messages were refused lately, by the site or by the node, and why; the newest comes last.
    `environment` names the node's version as `pkb`.
    """

    node: str
    slots: Annotated[tuple[SlotStatus, ...], Meta(max_length=MOST_SLOTS)]
    sandbox: SandboxLevel
    backends: Annotated[tuple[Backend, ...], Meta(max_length=len(Backend))]
    revisions: dict[str, str]
    environment: dict[str, str] = {}
    running: tuple[str, ...] = ()
    builders: Annotated[int, Meta(ge=0, le=MOST_BUILDERS)] = 0
    built: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    schema_version: Count = SCHEMA_VERSION
