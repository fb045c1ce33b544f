"""What all sizes of one worker group have in common."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from evaluator.contract import Stage
from evaluator.host.machine.slot_watch import SlotWatch
from evaluator.host.measure.call_checks import CallPolicy
from evaluator.host.measure.gpu_memory import GpuMemory
from evaluator.host.ranks.slot_plan import SlotPlan
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.ranks.worker_group import WorkerGroup
from problems.spec.schema import Problem, Regime

Stages = Callable[[Stage, str, float | None], AbstractContextManager[None]]
"""Enters a stage of the evaluation: which stage, a description, and the fraction done."""


@dataclass(frozen=True, kw_only=True)
class BareCallTimes:
    """Times of bare calls in ns: in sandbox ranks before they could read a submission, and in reference ranks."""

    sandbox_ns: tuple[int, ...] = ()
    reference_ns: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GroupSetup:
    """What all sizes of one worker group have in common.

    Attributes:
        group_number: which group of the evaluation this is, from 1.
        bare: its times of bare calls.
        memory: reads the GPUs' memory since before the group had a submission.
        watch: reads the GPUs around legs of the reference.
        first_call_s: extra time for the first call at a size.
        regimes: by size, the regimes that calls are drawn in.
        only: the one regime of all checked calls, where the author asked for one.
        budget_s: how long the timed series of one size may take.
        stages: enters a stage of the evaluation.
    """

    problem: Problem
    dtype: str
    key: bytes
    plan: SlotPlan
    trusted: TrustedRanks
    group: WorkerGroup
    group_number: int
    bare: BareCallTimes
    memory: GpuMemory
    watch: SlotWatch
    policy: CallPolicy
    draws: Iterator[int]
    numbers: Iterator[int]
    first_call_s: float
    regimes: Mapping[str, Sequence[Regime]]
    only: Regime | None
    budget_s: float
    stages: Stages
