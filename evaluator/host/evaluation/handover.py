"""What can be measured only before the handover: the reference in isolation, bare calls, the GPUs' memory."""

import contextlib
import itertools
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from evaluator.contract import MOMENT_ALONE, MOMENT_REVEALING, GpuReading, Mode, Stage
from evaluator.host.evaluation.failures import FailureGuard, without_the_submission
from evaluator.host.hangs.incidents import RanksLost
from evaluator.host.job import Job
from evaluator.host.machine.slot_watch import SlotWatch
from evaluator.host.measure.evidence import Ended
from evaluator.host.measure.gpu_memory import GpuMemory
from evaluator.host.measure.group_run import BareCallTimes
from evaluator.host.measure.launch_ahead import LaunchAhead
from evaluator.host.measure.references import ReferenceClock, new_opening
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.ranks.worker_group import WorkerGroup
from evaluator.judging import throttling
from evaluator.judging.checks import Check
from problems.spec.schema import SizeName

_FIRST, _FIRST_S, _SETTLING, _CALLS = 8, 0.2, 3, 8
"""How often the reference is called at a size before the handover. There are at most so many first calls,
and no new one after so many seconds. A few follow after a pause in which ranks may have started. Then come those whose
times are kept."""

_BARE_CALLS, _BARE_NUMBERS = 60, 2**31
"""Bare calls per worker group before its submission is handed over, and the first of their numbers.

The difference of both sides' medians is part of every time. With 15 calls it was uncertain by 0.9 us, with 60 by 0.5
(H200, 24 November 2026); from one worker group to the next it differs by 0.5 us.
"""


@dataclass(frozen=True, kw_only=True)
class IsolatedTimes:
    """The reference at a size before any rank could read the submission: times of calls in ns, and the GPUs then."""

    times_ns: tuple[int, ...] = ()
    gpus: tuple[GpuReading, ...] = ()


def first_calls(job: Job, trusted: TrustedRanks) -> dict[str, ReferenceClock]:
    """Make the reference's first calls at the first size, while worker groups may still start; raises NodeFailure.

    Not at `large`, where the oracle may need the memory that starting ranks need.
    """
    size = job.sizes[0]
    if job.mode is not Mode.RANKED or not job.is_timed or size == SizeName.LARGE:
        return {}
    with job.stage(Stage.STARTING, f"{size}: first calls of the reference"), without_the_submission():
        return {size: _first_calls(job, trusted, size)}


def isolated_times(
    job: Job, trusted: TrustedRanks, *, watch: SlotWatch, opened: dict[str, ReferenceClock]
) -> Mapping[str, IsolatedTimes]:
    """Time the reference at every size where the evaluation counts: later phases are compared with these times.

    Sizes that are `opened` have had their first calls. Raises NodeFailure.
    """
    found: dict[str, IsolatedTimes] = {}
    for size in job.sizes if job.mode is Mode.RANKED and job.is_timed else ():
        with job.stage(Stage.STARTING, f"{size}: the reference alone"), without_the_submission():
            clock = opened.pop(size, None) or _first_calls(job, trusted, size)
            trusted.oracle.warm_up()
            for _ in range(_SETTLING):
                clock.time()
            gpus: list[GpuReading] = []
            with watch.around(MOMENT_ALONE, calls=_CALLS, into=gpus):
                times = tuple(clock.time().time.longest_ns for _ in range(_CALLS))
            found[size] = IsolatedTimes(times_ns=times, gpus=tuple(gpus))
    return found


def rehearse(job: Job, trusted: TrustedRanks) -> None:
    """A few calls of the reference at every size, without the submission; raises EvaluatorError."""
    for size in job.sizes:
        _clock(job, trusted, size).open(calls=2, seconds=0.0)


def _first_calls(job: Job, trusted: TrustedRanks, size: str) -> ReferenceClock:
    clock = _clock(job, trusted, size)
    clock.open(calls=_FIRST, seconds=_FIRST_S)
    return clock


def _clock(job: Job, trusted: TrustedRanks, size: str) -> ReferenceClock:
    """Opens the size with a secret of its own, so that the evaluation's inputs stay unseen."""
    opened = trusted.open_size(problem=job.request.problem, size=size, dtype=job.dtype, key=secrets.token_bytes(32))
    return ReferenceClock(trusted, opened, itertools.count())


def bare_calls(
    job: Job, *, group: WorkerGroup, trusted: TrustedRanks, guard: FailureGuard, is_first: bool
) -> BareCallTimes:
    """Make bare calls in sandbox and reference ranks, and read the GPUs' memory, for `guard` too.

    Raises:
        RanksLost: ranks of the group ended.
        EvaluatorError: trusted ranks failed; NodeFailure in the first group, as no submission has run then.
    """
    # A second group may have been disturbed while the first ran the submission.
    with without_the_submission(but=(RanksLost,)) if is_first else contextlib.nullcontext():
        bare = _bare_calls(job, group, trusted) if job.is_timed else BareCallTimes()
    guard.memory = GpuMemory(job.resources.gpus, trusted)
    return bare


def refuse_slow_gpus(job: Job, watch: SlotWatch, *, isolated: tuple[GpuReading, ...]) -> tuple[GpuReading, ...]:
    """Read the GPUs while no rank can read the submission; raises Ended where heat or power holds one of them back.

    What holds them back later may be the submission's own heat, which must not win it another try. `isolated` has what
    was read while the reference was timed alone.
    """
    seen = watch.read(MOMENT_REVEALING)
    if job.is_timed and job.does(Check.THROTTLING):
        found = throttling.before_the_submission((*isolated, *seen), job.profile.timing_rules())
        if found is not None:
            raise Ended([found])
    return seen


def _bare_calls(job: Job, group: WorkerGroup, trusted: TrustedRanks) -> BareCallTimes:
    """Bare calls in sandbox and reference ranks, in turn."""
    world_size = job.profile.world_size
    head = LaunchAhead(waits_for_queue=True, is_fixed=True)
    trusted.oracle.warm_up()
    pairs = [
        (
            group.bare(
                _BARE_NUMBERS + number,
                opening=new_opening(head, ranks=world_size),
                seconds=job.settings.call_limit_s,
            ).longest_ns,
            trusted.reference.bare(opening=new_opening(head, ranks=world_size)).longest_ns,
        )
        for number in range(_BARE_CALLS)
    ]
    sandbox_ns, reference_ns = zip(*pairs, strict=True)
    return BareCallTimes(sandbox_ns=sandbox_ns, reference_ns=reference_ns)
