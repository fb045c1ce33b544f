"""One worker group that runs the submission at every size, and what measures it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluator.host.job import Job
from evaluator.host.machine.slot_watch import SlotWatch
from evaluator.host.measure.gpu_memory import GpuMemory
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.ranks.worker_group import WorkerGroup
from problems.spec.schema import Regime


@dataclass(frozen=True, kw_only=True)
class BareCallTimes:
    """Times of bare calls in ns: in sandbox ranks before they could read a submission, and in reference ranks."""

    sandbox_ns: tuple[int, ...] = ()
    reference_ns: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GroupRun:
    """What all sizes of one worker group have in common.

    Attributes:
        number: which group of the evaluation this is, from 1.
        key: from which its inputs are drawn.
        bare: its times of bare calls.
        memory: reads the GPUs' memory since before the group had a submission.
        watch: reads the GPUs around phases of the reference.
        draws, numbers: numbers of inputs, which are secret, and of calls.
        first_call_s: extra time for the first call at a size.
        regimes: by size, the regimes that calls are drawn in.
        budget_s: how long the timed series of one size may take.
    """

    job: Job
    number: int
    key: bytes
    trusted: TrustedRanks
    group: WorkerGroup
    bare: BareCallTimes
    memory: GpuMemory
    watch: SlotWatch
    draws: Iterator[int]
    numbers: Iterator[int]
    first_call_s: float
    regimes: Mapping[str, Sequence[Regime]]
    budget_s: float
