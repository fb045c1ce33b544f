"""The moment at which ranks get the submission, and what can be measured only before it."""

import contextlib
from dataclasses import dataclass

from evaluator.contract import MOMENT_REVEALING, GpuReading
from evaluator.host.building.builder import Built
from evaluator.host.evaluation.job import Job
from evaluator.host.evaluation.trouble import TroubleWatch, without_the_submission
from evaluator.host.hangs.incidents import RanksLost
from evaluator.host.machine.slot_watch import SlotWatch
from evaluator.host.measure.evidence import Ended
from evaluator.host.measure.gpu_memory import GpuMemory
from evaluator.host.measure.group_setup import BareCallTimes
from evaluator.host.measure.head_start import HeadStart
from evaluator.host.measure.references import new_opening
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.ranks.worker_group import WorkerGroup
from evaluator.judging import throttling
from evaluator.judging.checks import Check

_BARE_CALLS, _BARE_NUMBERS = 60, 2**31
"""Bare calls per worker group before its submission is revealed, and the first of their numbers.

The difference of both sides' medians is part of every time. With 15 calls it was uncertain by 0.9 us, with 60 by 0.5
(H200, 24 November 2026); from one worker group to the next it differs by 0.5 us.
"""


@dataclass(frozen=True, kw_only=True)
class BeforeReveal:
    """What was measured in one worker group before it had the submission: bare calls, and the GPUs' memory."""

    bare: BareCallTimes
    memory: GpuMemory


def measure(
    job: Job, *, group: WorkerGroup, trusted: TrustedRanks, trouble: TroubleWatch, is_first: bool
) -> BeforeReveal:
    """Measure what a submission could disturb later.

    Raises:
        RanksLost: ranks of the group ended.
        EvaluatorError: trusted ranks failed; NodeTrouble in the first group, as no submission has run then.
    """
    # A second group may have been disturbed while the first ran the submission.
    with without_the_submission(but=(RanksLost,)) if is_first else contextlib.nullcontext():
        bare = _bare_calls(job, group, trusted) if job.mode.is_timed else BareCallTimes()
    memory = trouble.memory = GpuMemory(job.plan.gpus, trusted)
    return BeforeReveal(bare=bare, memory=memory)


def refuse_slow_gpus(job: Job, watch: SlotWatch, *, alone: tuple[GpuReading, ...]) -> tuple[GpuReading, ...]:
    """Read the GPUs while no rank can read the submission.

    What holds them back later may be the submission's own heat, which must not win it another try.

    Args:
        job: what is judged.
        watch: reads the GPUs.
        alone: their readings while the reference was timed alone.

    Raises:
        Ended: heat or power holds one of them back.
    """
    seen = watch.read(MOMENT_REVEALING)
    if job.mode.is_timed and job.policy.does(Check.THROTTLING):
        found = throttling.before_the_submission((*alone, *seen), job.plan.profile.timing_rules())
        if found is not None:
            raise Ended([found])
    return seen


def reveal(job: Job, group: WorkerGroup, *, built: Built | None) -> None:
    """Give the submission to a worker group and let every rank import it; raises GroupTrouble and RanksLost."""
    group.reveal(job.request.source, built=built)
    group.commands.import_submission(seconds=job.policy.within(job.plan.settings.import_s), cancelled=job.cancelled)


def _bare_calls(job: Job, group: WorkerGroup, trusted: TrustedRanks) -> BareCallTimes:
    """Bare calls in sandbox and reference ranks, in turn."""
    world_size = job.plan.profile.world_size
    head = HeadStart(waits_for_queue=True, is_fixed=True)
    trusted.oracle.warm_up()
    pairs = [
        (
            group.commands.bare(
                _BARE_NUMBERS + number,
                opening=new_opening(head, ranks=world_size),
                seconds=job.plan.settings.call_limit_s,
                cancelled=job.cancelled,
            ).longest_ns,
            trusted.reference.bare(opening=new_opening(head, ranks=world_size)).longest_ns,
        )
        for number in range(_BARE_CALLS)
    ]
    sandbox_ns, reference_ns = zip(*pairs, strict=True)
    return BareCallTimes(sandbox_ns=sandbox_ns, reference_ns=reference_ns)
