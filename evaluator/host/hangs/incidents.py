"""What can happen to a worker group, as data: the evidence for `diagnosis`."""

from dataclasses import dataclass
from enum import Enum

from evaluator.arena.protocol import Failure
from evaluator.contract import Collective
from evaluator.errors import EvaluatorError
from evaluator.host.hangs.stacks import Frame


class IncidentKind(Enum):
    """Something that ended, or will end, a worker group."""

    VIOLATION = "a record that the shim never sends"
    FAILED = "the rank reported a failure"
    CLOSED = "the rank's channel was closed"
    EXITED = "the rank's process ended"
    SANDBOX_ENDED = "the sandbox ended though its ranks had not"
    OVERDUE = "the deadline passed"
    STALLED = "the ranks wait for each other"
    MEMORY = "the kernel ended a process because the sandbox had no memory left"


@dataclass(frozen=True, kw_only=True)
class Incident:
    """One incident with the host's time of it. `status` is a wait status, `text` an explanation."""

    kind: IncidentKind
    at: float
    rank: int | None = None
    failure: Failure | None = None
    status: int | None = None
    text: str = ""


class Standing(Enum):
    """The state of a rank when the evaluation ended."""

    FINISHED = "has answered"
    WORKING = "works"
    SLEEPING = "sleeps"
    IN_COLLECTIVE = "waits in a collective, or for the others to line up"
    BESIDE_THREADS = "waits in a collective, beside threads of its own that may still act"
    ON_DEVICE = "waits for its GPU"
    ENDED = "has ended"
    FAILED = "has failed"


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One rank as observed from outside (process, stack), with the phase that it noted itself.

    `place` is the innermost line of the submission in its traceback, else in its stack.
    """

    rank: int
    standing: Standing
    location: str
    calls_done: int
    exit: str
    error: str | None = None
    stack: str | None = None
    log: str = ""
    log_lacks: int = 0
    collectives: tuple[Collective, ...] = ()
    place: Frame | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether its main thread waits for other ranks."""
        return self.standing in (Standing.IN_COLLECTIVE, Standing.BESIDE_THREADS)


class WorkerGroupFailure(Exception):
    """A worker group cannot go on. Holds every incident in the order of time, and the last observation of each rank."""

    def __init__(
        self, incidents: tuple[Incident, ...], observations: tuple[Observation, ...], *, doing: str, limit_s: float
    ) -> None:
        super().__init__("; ".join(incident.kind.value for incident in incidents))
        self.incidents = incidents
        self.observations = observations
        self.doing = doing
        self.limit_s = limit_s


class RanksLost(EvaluatorError):
    """Ranks of a worker group did not start, or ended before one of them could read the submission."""
