"""What boards and charts keep of an evaluation: times, speedups and distance to the floor per size, other speedups."""

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from evaluator.contract import Timing


class SizeTime(msgspec.Struct, frozen=True, kw_only=True):
    """One size of an accepted evaluation: median times in microseconds, and the speedup with its interval."""

    size: str
    time_us: float
    baseline_us: float
    floor_us: float | None
    score: float
    low: float
    high: float

    @property
    def utilisation(self) -> float | None:
        """Floor over time: 1 is the roofline; None where no floor applies."""
        return self.floor_us / self.time_us if self.floor_us is not None else None


def mean_utilisation(sizes: Iterable[SizeTime]) -> float | None:
    """Floor over time, the geometric mean over the sizes; None where one of them has no floor."""
    shares = [size.utilisation for size in sizes]
    if not shares or any(share is None for share in shares):
        return None
    return math.exp(sum(math.log(share) for share in shares if share) / len(shares))


def size_times(timing: Timing) -> tuple[SizeTime, ...]:
    return tuple(
        SizeTime(
            size=size.size,
            time_us=size.candidate.median_us,
            baseline_us=size.baseline.median_us,
            floor_us=size.floor_us,
            score=size.score,
            low=size.low,
            high=size.high,
        )
        for size in timing.sizes
    )


BASE = "base"
SCORE, BACK_TO_BACK, BACK_TO_BACK_AT_BASE = "score", "back_to_back", "back_to_back_at_base"
WAYS = {
    SCORE: "Score",
    BACK_TO_BACK: "Back to back",
    BACK_TO_BACK_AT_BASE: "Back to back at base alone",
}
"""What pages of runs can be read by. All but the score rank nothing and have no interval."""


def other_speedups(timing: Timing) -> dict[str, float]:
    """The speedups by the other `WAYS`: geometric means over sizes; without those that were not measured everywhere."""
    pairs = {size.size: (size.baseline_looped_us, size.looped_us) for size in timing.sizes}
    ratios = {size: reference / ours for size, (reference, ours) in pairs.items() if reference and ours}
    found = {BACK_TO_BACK_AT_BASE: ratios[BASE]} if BASE in ratios else {}
    if ratios and len(ratios) == len(pairs):
        found[BACK_TO_BACK] = statistics.geometric_mean(ratios.values())
    return found


def to_stored(times: Iterable[SizeTime]) -> list[Any]:
    return [msgspec.to_builtins(time) for time in times]


def from_stored(stored: Sequence[Any]) -> tuple[SizeTime, ...]:
    """The reverse of `to_stored`."""
    return msgspec.convert(tuple(stored), tuple[SizeTime, ...])
