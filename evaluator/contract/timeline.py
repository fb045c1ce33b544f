"""The recorded call on every rank: what ran when. Reported by the ranks; nothing of it is judged."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from evaluator.contract.base import MOST_RANKS, Count, Message, Name, Rank, Sentence, Whole


class SpanKind(StrEnum):
    """What a span is.

    `kernel`, `copy` and `fill` are work on the device, and `collective` is a call of torch.distributed. `launch`,
    `wait` and `operator` are what the host does: it starts work, waits for the device, runs an operator.
    """

    KERNEL = "kernel"
    COPY = "copy"
    FILL = "fill"
    COLLECTIVE = "collective"
    LAUNCH = "launch"
    WAIT = "wait"
    OPERATOR = "operator"

    @property
    def is_on_device(self) -> bool:
        """Whether it is the device's time."""
        return self in (SpanKind.KERNEL, SpanKind.COPY, SpanKind.FILL)


class WorkName(Message, frozen=True, kw_only=True, array_like=True):
    """A name that spans share, and how a kernel of it was launched; written as an array.

    `grid` and `block` count blocks and threads, zeros where there are none. `registers` is per thread and
    `shared_bytes` per block. `occupancy` is the profiler's estimate of the share of warps, None without one. A copy
    between two GPUs goes from rank `source` to rank `target`, None where the profiler names none.
    """

    name: Name
    grid: tuple[Count, Count, Count] = (0, 0, 0)
    block: tuple[Count, Count, Count] = (0, 0, 0)
    registers: Count = 0
    shared_bytes: Count = 0
    occupancy: Annotated[float, Meta(ge=0, le=1)] | None = None
    source: Count | None = None
    target: Count | None = None


class Span(Message, frozen=True, kw_only=True, array_like=True):
    """From `start_ns` after the call's beginning for `ns`; written as an array, for there are thousands.

    `lane` and `name` are indices in their lists. `bytes` is what was copied or filled, 0 where unknown.
    `flow` is the same for a launch and the work that it started, 0 for none.
    """

    kind: SpanKind
    lane: Count
    name: Count
    start_ns: Count
    ns: Count
    bytes: Count = 0
    flow: Count = 0

    @property
    def end_ns(self) -> int:
        """When it ended."""
        return self.start_ns + self.ns


class RankTimeline(Message, frozen=True, kw_only=True):
    """One rank of a recorded call; times are nanoseconds since the first rank began.

    `lanes` are the device's streams, then the host's threads. The rank was in the call from `begin_ns` to `end_ns`. Its
    offset from the other ranks is known to within `uncertainty_ns`. `dropped` counts the shortest spans, which were
    left out; `note` says why there are none. `opened_ns` is when the gate opened by this device's clock, None where no
    gate was recorded. The gates of all ranks open at once, so it shows how far the devices' clocks lie apart.
    """

    rank: Rank
    lanes: Annotated[tuple[Name, ...], Meta(max_length=64)] = ()
    spans: Annotated[tuple[Span, ...], Meta(max_length=3000)] = ()
    begin_ns: Count = 0
    end_ns: Count = 0
    uncertainty_ns: Count = 0
    dropped: Count = 0
    note: Sentence = ""
    opened_ns: Whole | None = None


class CallTimeline(Message, frozen=True, kw_only=True):
    """One recorded call of one program on all ranks; their spans share `names`."""

    names: Annotated[tuple[WorkName, ...], Meta(max_length=400 * MOST_RANKS)]
    ranks: Annotated[tuple[RankTimeline, ...], Meta(max_length=MOST_RANKS)]

    def __post_init__(self) -> None:
        names = len(self.names)
        for number, rank in enumerate(self.ranks):
            if rank.rank != number:
                raise ValueError(f"rank {rank.rank} stands where rank {number} belongs")
            lanes = len(rank.lanes)
            if any(span.name >= names or span.lane >= lanes for span in rank.spans):
                raise ValueError(f"a span of rank {number} has a name or lane that is not listed")

    @property
    def is_empty(self) -> bool:
        """Whether no rank left a span."""
        return not any(rank.spans for rank in self.ranks)

    @property
    def is_on_device(self) -> bool:
        """Whether the devices' own time was recorded."""
        return any(span.kind.is_on_device for rank in self.ranks for span in rank.spans)


class Timeline(Message, frozen=True, kw_only=True):
    """A recorded call of a submission at `size`, and one of the reference; None where that was not recorded."""

    size: Name
    submission: CallTimeline
    reference: CallTimeline | None = None
