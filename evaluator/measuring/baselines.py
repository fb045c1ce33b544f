"""Measures the references alone: the data of `problems/data/baselines/<profile>.json`."""

import itertools
import math
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from evaluator.contract import SCORE_RULE, Baseline, BaselineTable, Mode
from evaluator.hardware import profiles
from evaluator.hardware.profiles import Profile
from evaluator.host.clock.call_clock import GateClock
from evaluator.host.machine import facts, gpus
from evaluator.host.measure.references import ReferenceClock
from evaluator.host.process.spawner import Spawner
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.sandbox.cpu_sets import shares_for
from evaluator.host.settings import JudgeSettings
from evaluator.judging import statistics
from evaluator.judging.floors import floor_of
from evaluator.judging.timing import net_us
from problems import registry
from problems.spec.schema import Problem

_STEADY_CALLS, _STEADY_S = 20, 0.2
_SERIES_S = 0.4
_LEAST_CALLS, _MOST_CALLS = 20, 200
_EMPTY_CALLS, _MET_CALLS = 20, 3

_OPENING_US, _OPENING_SHARE = 3.0, 0.011
"""Standard deviation of a reference's time between one opening of a size and the next, in microseconds and as a share.

130 points of sweeps, each three times on 2 H100, two machines (27 November 2026, torch 2.11.0+cu130): 3.0 us over
the 85 below 100 us, 1.1 % over the others. The empty call that goes off every time makes the first.
"""


@contextmanager
def ranks(settings: JudgeSettings) -> Iterator[TrustedRanks]:
    """Trusted ranks for measuring references; raises EvaluatorError where the machine lacks the profile's GPUs."""
    profile = profiles.get(settings.profile)
    gpus.gpus_for(profile)
    with ExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="pkb-baseline-", dir=settings.work_dir)))
        spawner, clock = parts.enter_context(Spawner()), None
        if profile.device == "cuda":
            clock = parts.enter_context(GateClock(spawner=spawner, cores=shares_for(profile).gatekeeper))
        trusted = TrustedRanks(profile, settings, spawner=spawner, work_dir=folder, clock=clock)
        parts.callback(trusted.close)
        trusted.wait_until_ready()
        yield trusted


def measure(
    trusted: TrustedRanks, profile: Profile, slug: str, *, mode: Mode = Mode.RANKED, dtype: str = "bfloat16"
) -> Iterator[tuple[str, Baseline]]:
    """Size and baseline of a problem at the sizes of `mode`; nothing where it does not run on as many ranks."""
    problem = registry.get(slug)
    if problem.refuses(profile.world_size, profile.sizes[mode]) is None:
        for size in sizes(problem, profile, mode):
            yield size, _measured(trusted, profile, problem, size, dtype)


def sizes(problem: Problem, profile: Profile, mode: Mode) -> tuple[str, ...]:
    """The sizes of the profile in `mode`; in mode sweep the points of the problem's axis, if it has one."""
    found = profile.sizes[mode]
    return tuple(point.name for point in problem.points(found)) if mode is Mode.SWEEP else found


def _measured(trusted: TrustedRanks, profile: Profile, problem: Problem, size: str, dtype: str) -> Baseline:
    opened = trusted.open_size(problem=problem.slug, size=size, dtype=dtype, key=secrets.token_bytes(32))
    clock = ReferenceClock(trusted, opened, itertools.count())
    opening = clock.open(calls=_STEADY_CALLS, seconds=_STEADY_S)
    wanted = math.ceil(_SERIES_S / opening.call_s)
    empty_us = median(clock.empty().longest_ns for _ in range(_EMPTY_CALLS)) / 1000
    taken = [clock.time().time for _ in range(max(_LEAST_CALLS, min(_MOST_CALLS, wanted)))]
    met = ReferenceClock(trusted, opened, itertools.repeat(0))
    met.reopen(opening, calls=_MET_CALLS)
    met_ns = int(median(met.time().time.longest_ns for _ in range(_LEAST_CALLS)))
    rules = profile.timing_rules()
    calls = [[net_us(done, empty_us=empty_us, rules=rules) for done in call.done_ns] for call in taken]
    times_us = [max(call) for call in calls]
    summary, (low_us, high_us) = statistics.summarise(times_us), interval(times_us, least_us=rules.resolution_us)
    floor = floor_of(problem, opened.dims, profile, dtype=dtype)
    return Baseline(
        revision=registry.revision(problem.slug),
        dims=opened.dims,
        dtype=dtype,
        calls=len(calls),
        median_us=summary.median_us,
        low_us=low_us,
        high_us=high_us,
        p10_us=summary.p10_us,
        p90_us=summary.p90_us,
        rank_medians_us=tuple(median(ranks) for ranks in zip(*calls, strict=True)),
        floor_us=None if floor is None else floor.us,
        bound=None if floor is None else floor.bound.value,
        utilisation=None if floor is None else floor.us / summary.median_us,
        met_us=net_us(met_ns, empty_us=empty_us, rules=rules),
    )


def interval(times_us: Sequence[float], *, least_us: float) -> tuple[float, float]:
    """The ends of the interval around a series' median, in microseconds, for what many openings come to.

    The median's own interval in this series, and what differs between openings, added as independent errors.
    """
    found = statistics.median_interval(times_us)
    between = statistics.NORMAL * math.hypot(_OPENING_US, _OPENING_SHARE * found.score)
    low, high = (math.hypot(abs(found.score - end), between) for end in (found.low, found.high))
    return max(least_us, found.score - low), found.score + high


def table(profile: str, baselines: dict[str, dict[str, Baseline]]) -> BaselineTable:
    """The measured baselines with this machine's versions and the time."""
    return BaselineTable(
        profile=profile,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=facts.environment(),
        baselines=baselines,
        rule=SCORE_RULE,
    )
