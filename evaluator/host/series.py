"""Timing: blocks of reference, submission, submission, reference, and what follows from them."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from evaluator.contract import Finding, SizeTiming, Timing, Verdict
from evaluator.hardware.profiles import Profile
from evaluator.host.calls import CallTime
from evaluator.judging import statistics
from evaluator.judging.floors import floor
from problems.schema import Problem

_ELEMENT_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}


def element_bytes(dtype: str) -> int:
    """Bytes of one element of the run's dtype."""
    return _ELEMENT_BYTES.get(dtype, 2)


@dataclass
class Series:
    """The times of one size: per block, the calls of either side in nanoseconds."""

    size: str
    dims: dict[str, int]
    candidate: list[list[CallTime]] = field(default_factory=list)
    reference: list[list[int]] = field(default_factory=list)

    def ratios(self) -> tuple[float, ...]:
        """Reference over candidate per block, each the sum over the block's calls."""
        pairs = zip(self.reference, self.candidate, strict=True)
        return tuple(sum(ours) / max(1, sum(call.longest_ns for call in theirs)) for ours, theirs in pairs)

    def candidate_us(self) -> list[float]:
        """Every candidate call's time."""
        return [call.longest_ns / 1000 for block in self.candidate for call in block]

    def reference_us(self) -> list[float]:
        """Every reference call's time."""
        return [time_ns / 1000 for block in self.reference for time_ns in block]

    def rank_medians_us(self) -> tuple[float, ...]:
        """Each rank's median over the candidate's calls."""
        per_call = [call.claims_ns for block in self.candidate for call in block]
        return tuple(median(claims) / 1000 for claims in zip(*per_call, strict=True))

    def window_us(self) -> float:
        """The median of the host's window around a candidate call."""
        return median(call.window_ns for block in self.candidate for call in block) / 1000


def run_block(
    series: Series, *, calls: int, time_candidate: Callable[[], CallTime], time_reference: Callable[[], int]
) -> None:
    """One block A B B A, `calls` calls a leg."""
    ours = [time_reference() for _ in range(calls)]
    theirs = [time_candidate() for _ in range(2 * calls)]
    ours += [time_reference() for _ in range(calls)]
    series.reference.append(ours)
    series.candidate.append(theirs)


def secret_subset(total: int, *, least: int) -> frozenset[int]:
    """Which of `total` calls are compared in full: at least `least` and one in ten, unknown until they are drawn."""
    wanted = min(total, max(least, -(-total // 10)))
    return frozenset(secrets.SystemRandom().sample(range(total), wanted))


def conclude(many: list[Series], *, problem: Problem, profile: Profile, dtype: str) -> tuple[Timing, list[Finding]]:
    """The timing of all sizes, and what speaks against it."""
    sizes = [_size_timing(series, problem=problem, profile=profile, dtype=dtype) for series in many]
    blocks = statistics.combine_sizes([timing.ratios for timing in sizes])
    interval = statistics.interval(blocks)
    timing = Timing(score=interval.score, low=interval.low, high=interval.high, blocks=blocks, sizes=tuple(sizes))
    findings = [*_below_floor(sizes), *_drift(many, profile)]
    return timing, findings


def _size_timing(series: Series, *, problem: Problem, profile: Profile, dtype: str) -> SizeTiming:
    floor_us = None
    if profile.peaks is not None:
        cost = problem.cost(series.dims, profile.world_size, element_bytes(dtype))
        floor_us = floor(cost, profile.peaks, dtype=dtype).us
    return SizeTiming(
        size=series.size,
        candidate=statistics.summarise(series.candidate_us()),
        baseline=statistics.summarise(series.reference_us()),
        ratios=series.ratios(),
        rank_medians_us=series.rank_medians_us(),
        floor_us=floor_us,
        window_us=series.window_us(),
    )


def _below_floor(sizes: list[SizeTiming]) -> list[Finding]:
    return [
        Finding(
            verdict=Verdict.BELOW_FLOOR,
            message=(
                f"{timing.candidate.median_us:.1f} us at size {timing.size} is below the floor of "
                f"{timing.floor_us:.1f} us"
            ),
            size=timing.size,
        )
        for timing in sizes
        if timing.floor_us is not None and timing.candidate.median_us < timing.floor_us
    ]


def _drift(many: list[Series], profile: Profile) -> list[Finding]:
    """Whether the reference's medians of the two halves of a series differ by more than the profile allows."""
    if profile.baseline_drift is None:
        return []
    findings = []
    for series in many:
        medians = [median(block) for block in series.reference]
        half = len(medians) // 2
        if not half:
            continue
        first_us, last_us = median(medians[:half]) / 1000, median(medians[-half:]) / 1000
        drift = abs(first_us / last_us - 1)
        if drift > profile.baseline_drift and abs(first_us - last_us) > profile.baseline_jitter_us:
            message = (
                f"the reference drifted from {first_us:.1f} to {last_us:.1f} us ({drift:.1%}) at size {series.size} "
                "while it was measured"
            )
            findings.append(Finding(verdict=Verdict.BASELINE_UNSTABLE, message=message, size=series.size))
    return findings
