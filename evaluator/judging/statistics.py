"""From times to a score: ratios per block, their median, and an interval anyone can recompute."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from evaluator.contract import TimeSummary

COVERAGE = 0.95
"""The interval holds the true median with at least this probability, whatever the distribution of the blocks."""


@dataclass(frozen=True)
class Interval:
    """A median with the two order statistics that enclose it."""

    score: float
    low: float
    high: float


def combine_sizes(ratios_by_size: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """One value per block: the geometric mean over sizes of that block's reference / candidate ratios.

    Args:
        ratios_by_size: for every size, one positive ratio per block; all of one length.

    Raises:
        ValueError: no size, lengths differ, or a ratio is not a positive number.
    """
    if not ratios_by_size or len({len(ratios) for ratios in ratios_by_size}) != 1:
        raise ValueError("every size needs the same number of blocks, and there must be at least one size")
    if any(not ratio > 0 or math.isinf(ratio) for ratios in ratios_by_size for ratio in ratios):
        raise ValueError("a ratio of times is a positive finite number")
    blocks = zip(*ratios_by_size, strict=True)
    return tuple(math.exp(sum(map(math.log, block)) / len(block)) for block in blocks)


def interval(blocks: Sequence[float]) -> Interval:
    """The median of the blocks and the order statistics k and n + 1 - k around it.

    k is the largest that still covers the median with probability `COVERAGE`, by the binomial distribution of the
    sign test; 12 blocks give the 3rd to the 10th (96.1 %). Fewer than 6 blocks cannot cover: their extremes stand.

    Raises:
        ValueError: there is no block.
    """
    if not blocks:
        raise ValueError("an interval needs at least one block")
    ordered = sorted(blocks)
    k = _order_statistic(len(ordered))
    return Interval(score=median(ordered), low=ordered[k - 1], high=ordered[-k])


def _order_statistic(count: int) -> int:
    below = 0
    for k in range(1, count // 2 + 1):
        below += math.comb(count, k - 1)
        if 1 - 2 * below / 2**count < COVERAGE:
            return max(1, k - 1)
    return max(1, count // 2)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted values lie, linear between neighbours (Hyndman-Fan type 7)."""
    position = share * (len(ordered) - 1)
    lower = math.floor(position)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] + (ordered[upper] - ordered[lower]) * (position - lower)


def summarise(times_us: Sequence[float]) -> TimeSummary:
    """Median, 10 % and 90 % of a series of call times in microseconds.

    Raises:
        ValueError: the series is empty.
    """
    if not times_us:
        raise ValueError("a summary needs at least one time")
    ordered = sorted(times_us)
    return TimeSummary(
        median_us=median(ordered),
        p10_us=quantile(ordered, 0.1),
        p90_us=quantile(ordered, 0.9),
        calls=len(ordered),
    )
