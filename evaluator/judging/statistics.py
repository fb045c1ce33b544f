"""From times to a score: speedups by block, their trimmed mean, and an interval that anyone can recompute.

All values are natural logarithms of reference over candidate, so faster and slower count alike.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean, median, quantiles, variance

from evaluator.contract import TimeSummary

COVERAGE = 0.95
"""An interval holds the true value with this probability."""

TRIM = 0.2
"""The share of the blocks that the mean leaves out at each end."""

LEAST_BLOCKS = 10
"""A series ends early only after so many blocks: a few blocks that lie close by chance give intervals too narrow.

Simulated (equal programs, 32 mixes of scatter and starts, 600 evaluations each): series that may end from the 6th block
on cover in 92 to 99 %, from the 8th in 93 to 98 %. Those from the 10th cover in 94 to 97 %, and those from the 12th on
no better.
"""

NARROW = 0.02
"""A half width, relative to the score, at which more blocks are not worth their GPU time."""

_REDUCIBLE = 1 / 3
"""Where the scatter of blocks is below this share of the half width, more blocks narrow it by 5 % at most."""

NORMAL = NormalDist().inv_cdf((1 + COVERAGE) / 2)
"""Half of an interval in standard deviations, where they are known."""


@dataclass(frozen=True)
class Interval:
    """A value with the ends of its interval."""

    score: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Location:
    """A trimmed mean with its standard error, and the degrees of freedom of that error."""

    mean: float
    error: float
    freedom: int

    @property
    def half_width(self) -> float:
        """Half of the interval around the mean."""
        return student_quantile(self.freedom) * self.error


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The logarithm of a speedup, and what makes it uncertain.

    Attributes:
        log: the logarithm.
        scatter: half of the interval from the scatter of blocks alone; more blocks narrow it.
        start_sd: standard deviation between starts of the ranks, both sides together; more blocks do not narrow it.
    """

    log: float
    scatter: float
    start_sd: float

    @property
    def half_width(self) -> float:
        """Half of the interval, as a logarithm."""
        return math.hypot(self.scatter, NORMAL * self.start_sd)

    @property
    def interval(self) -> Interval:
        """The speedup with its interval."""
        half = self.half_width
        return Interval(score=math.exp(self.log), low=math.exp(self.log - half), high=math.exp(self.log + half))


def trimmed_mean(values: Sequence[float]) -> Location:
    """The mean without the `TRIM` smallest and largest values, with its error from the winsorised sum of squares.

    After J. W. Tukey and D. H. McLaughlin, "Less vulnerable confidence and significance procedures for location based
    on a single sample: trimming/winsorization 1", Sankhya A 25 (1963) 331-352. With h of n values left, the error is
    sqrt(SSD_w / (h (h - 1))). (mean - truth) / error is about Student's t with h - 1 degrees of freedom.

    Raises:
        ValueError: there are fewer than two values.
    """
    if len(values) < 2:
        raise ValueError("an interval needs at least two blocks")
    ordered = sorted(values)
    cut = int(TRIM * len(ordered))
    kept = ordered[cut : len(ordered) - cut]
    winsorised = [kept[0]] * cut + kept + [kept[-1]] * cut
    centre = fmean(winsorised)
    squares = sum((value - centre) ** 2 for value in winsorised)
    left = len(kept)
    return Location(mean=fmean(kept), error=math.sqrt(squares / (left * (left - 1))), freedom=left - 1)


def student_probability(value: float, freedom: int) -> float:
    """The probability that |t| stays below `value`: the finite sums 26.7.3 and 26.7.4 of Abramowitz and Stegun."""
    angle = math.atan(value / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    term = sine * (cosine if freedom % 2 else 1.0)
    total = 0.0
    for step in range(2 + freedom % 2, freedom + 1, 2):
        total += term
        term *= cosine**2 * (step - 1) / step
    return (angle + total) * 2 / math.pi if freedom % 2 else total


@cache
def student_quantile(freedom: int) -> float:
    """The value that |t| stays below with probability `COVERAGE`, found by bisection.

    Raises:
        ValueError: there is no degree of freedom.
    """
    if freedom < 1:
        raise ValueError("Student's t needs at least one degree of freedom")
    low, high = 0.0, 100.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if student_probability(middle, freedom) < COVERAGE else (low, middle)
    return (low + high) / 2


def estimate(groups: Sequence[Sequence[float]], *, reference_sd: float, candidate_sd: float) -> Estimate:
    """The speedup at one size from the logarithms of its blocks' ratios.

    Args:
        groups: the logarithms by worker group. The candidate started once for each, the reference once for all.
        reference_sd: standard deviation of the reference's logarithm of time from one start of its ranks to the next.
        candidate_sd: the same of the candidate's.

    Raises:
        ValueError: there are fewer than two blocks.
    """
    every = sorted((value, group) for group, values in enumerate(groups) for value in values)
    location = trimmed_mean([value for value, _ in every])
    cut = int(TRIM * len(every))
    kept = [group for _, group in every[cut : len(every) - cut]]
    # Trimming removes a group that differs first, so a group weighs by its blocks that are left.
    weights = [kept.count(group) / len(kept) for group in range(len(groups))]
    shown_sd = max(candidate_sd, _shown_sd(groups, candidate_sd=candidate_sd))
    start_sd = math.hypot(reference_sd, shown_sd * math.hypot(*weights))
    return Estimate(log=location.mean, scatter=location.half_width, start_sd=start_sd)


def _shown_sd(groups: Sequence[Sequence[float]], *, candidate_sd: float) -> float:
    """The standard deviation between the worker groups' means; 0 where chance explains their distance.

    Chance is the scatter of each group's own blocks: a group of three blocks, two of them disturbed, shows nothing.
    """
    found = [trimmed_mean(values) for values in groups if len(values) > 1]
    if len(found) < 2:
        return 0.0
    means = [each.mean for each in found]
    chance = math.hypot(*(each.half_width for each in found), math.sqrt(2) * NORMAL * candidate_sd)
    return math.sqrt(variance(means)) if max(means) - min(means) > chance else 0.0


def combined(estimates: Sequence[Estimate]) -> Estimate:
    """The geometric mean over sizes: blocks of different sizes scatter independently, starts are shared.

    Raises:
        ValueError: there is no size.
    """
    if not estimates:
        raise ValueError("a score needs at least one size")
    return Estimate(
        log=fmean(each.log for each in estimates),
        scatter=math.hypot(*(each.scatter for each in estimates)) / len(estimates),
        start_sd=fmean(each.start_sd for each in estimates),
    )


def is_precise_enough(found: Estimate, *, blocks: int) -> bool:
    """Whether a series of so many blocks may end: its interval is narrow, or more blocks would hardly narrow it."""
    if blocks < LEAST_BLOCKS:
        return False
    return math.expm1(found.half_width) <= NARROW or found.scatter < _REDUCIBLE * found.half_width


def combine_sizes(ratios_by_size: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """One value for each block that all sizes have: the geometric mean of its reference / candidate ratios.

    Raises ValueError where there is no size, or a ratio is not a positive number.
    """
    if not ratios_by_size:
        raise ValueError("there must be at least one size")
    if any(not ratio > 0 or math.isinf(ratio) for ratios in ratios_by_size for ratio in ratios):
        raise ValueError("a ratio of times is a positive finite number")
    blocks = zip(*ratios_by_size, strict=False)
    return tuple(math.exp(fmean(map(math.log, block))) for block in blocks)


def median_interval(values: Sequence[float]) -> Interval:
    """The median of a series and the order statistics k and n + 1 - k around it, whatever its distribution.

    k is the largest that still covers the median with probability `COVERAGE`, by the binomial distribution of the
    sign test; 12 values give the 3rd to the 10th (96.1 %). Fewer than 6 values cannot cover it: then the extremes
    are returned.

    Raises:
        ValueError: there is no value.
    """
    if not values:
        raise ValueError("an interval needs at least one value")
    ordered = sorted(values)
    k = _order_statistic(len(ordered))
    return Interval(score=median(ordered), low=ordered[k - 1], high=ordered[-k])


def _order_statistic(count: int) -> int:
    below = 0
    for k in range(1, count // 2 + 1):
        below += math.comb(count, k - 1)
        if 1 - 2 * below / 2**count < COVERAGE:
            return max(1, k - 1)
    return max(1, count // 2)


def summarise(times_us: Sequence[float]) -> TimeSummary:
    """Median, 10 % and 90 % of a series of call times in microseconds.

    Raises:
        ValueError: the series is empty.
    """
    if not times_us:
        raise ValueError("a summary needs at least one time")
    tenths = quantiles(times_us, n=10, method="inclusive") if len(times_us) > 1 else [times_us[0]] * 9
    return TimeSummary(median_us=median(times_us), p10_us=tenths[0], p90_us=tenths[-1], calls=len(times_us))
