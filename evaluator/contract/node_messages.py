"""Messages between the site and its nodes: work, progress, reports, heartbeats, and their queues."""

from enum import StrEnum
from typing import Annotated, Self

from msgspec import Meta

from evaluator.contract.message import ContractError, Message
from evaluator.contract.ranges import MOST_BUILDERS, MOST_REPORT_BYTES, MOST_SLOTS, Name
from evaluator.contract.report import EvaluationReport, SandboxLevel, Stage
from evaluator.contract.request import Backend, EvaluationRequest

PORTAL_QUEUE = "portal"
"""The queue on which the site receives messages from its nodes."""


def node_queue(node: str) -> str:
    """The queue on which the node called `node` receives its work."""
    return f"node.{node}"


class TaskName(StrEnum):
    """Celery tasks that cross between site and node, by the name both sides know; each takes one JSON text.

    Tasks of the site also take the node's key: the lease says which evaluation a report is on, the key who sends it.
    """

    JUDGE = "node.judge"
    BUILD = "node.build"
    CANCEL = "node.cancel"
    RECEIPT = "node.receipt"
    RECORD_PROGRESS = "portal.record_progress"
    RECORD_DELIVERY = "portal.record_delivery"
    RECORD_STORED = "portal.record_stored"
    RECORD_NODE_STATUS = "portal.record_node_status"


class Upload(Message, frozen=True, kw_only=True):
    """Permission to put one object: a form to send to `url` with `fields` (S3's signed forms), or a file to write.

    `key` is the object's name on the site.
    """

    url: str
    key: str
    fields: dict[str, str] = {}


class Stored(Message, frozen=True, kw_only=True):
    """A node has put its delivery into the storage of the site: which object, its SHA-256 (hexadecimal) and size."""

    lease: str
    node: str
    evaluation_id: str
    key: str
    sha256: str
    size_bytes: int


class Assignment(Message, frozen=True, kw_only=True, omit_defaults=True):
    """What the dispatcher sends to a node: an evaluation for one slot, under a lease.

    `lease` is unguessable; its holder may report on this evaluation only. `request_id` identifies the web request that
    asked for the evaluation, only for log lines. `upload` is set where the report must not go into a message.
    """

    lease: str
    slot: int
    request: EvaluationRequest
    request_id: str = ""
    upload: Upload | None = None


class BuildOrder(Message, frozen=True, kw_only=True, omit_defaults=True):
    """What the dispatcher sends to a node's builders: an evaluation to compile before a slot is free, under a lease."""

    lease: str
    request: EvaluationRequest
    request_id: str = ""
    upload: Upload | None = None


class Cancellation(Message, frozen=True, kw_only=True):
    """The site asks a node to stop judging `evaluation_id`."""

    lease: str
    evaluation_id: str


class Receipt(Message, frozen=True, kw_only=True):
    """The site needs a delivery no more: it is recorded, or counts no longer. Names it by its text's SHA-256."""

    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]


class Progress(Message, frozen=True, kw_only=True):
    """Progress of a judge: the stage, a description, and the fraction done (0 to 1, None where unknown)."""

    evaluation_id: str
    lease: str
    stage: Stage
    detail: str = ""
    fraction: Annotated[float, Meta(ge=0, le=1)] | None = None


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

    `key` is the node's secret as the operator was shown it; the site keeps only its hash. `revisions` maps the slugs
    of the problems installed there to their revisions. `builders` is how many evaluations it can compile during
    judging, `built` the leases under which it has recently compiled one.
    """

    node: str
    key: str
    slots: Annotated[tuple[SlotStatus, ...], Meta(max_length=MOST_SLOTS)]
    sandbox: SandboxLevel
    backends: Annotated[tuple[Backend, ...], Meta(max_length=len(Backend))]
    revisions: dict[str, str]
    environment: dict[str, str] = {}
    running: tuple[str, ...] = ()
    builders: Annotated[int, Meta(ge=0, le=MOST_BUILDERS)] = 0
    built: tuple[str, ...] = ()
