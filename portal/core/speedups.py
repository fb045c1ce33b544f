"""A speedup in words: never more than its 95 % interval shows, and no multiplier where times are indicative."""

import math

from evaluator.contract import is_informative
from evaluator.hardware import profiles

_MOST_DECIMALS = 4
_OPEN = "not distinguishable"
_ALIKE = 1.5
"""On practice machines two copies of one program differ by tens of percent, and on a busy one by more."""


def _decimals(low: float | None, high: float | None, *, score: float = 1.0) -> int:
    """How many decimals the width of an interval justifies: the last one is at most half of the width.

    Without an interval, those of three digits of `score`, and at most two.
    """
    if low is None or high is None or low >= high:
        return max(0, 2 - math.floor(math.log10(max(score, 1.0))))
    return min(_MOST_DECIMALS, max(0, -math.floor(math.log10((high - low) / 2))))


def factor(score: float, low: float | None = None, high: float | None = None) -> str:
    """A multiplier with as many digits as its interval justifies, and at least its first digit other than 0."""
    first = -math.floor(math.log10(score)) if score > 0 else 0
    return f"{score:.{max(_decimals(low, high, score=score), min(_MOST_DECIMALS, first))}f}×"  # noqa: RUF001 - the sign is meant


def interval(low: float, high: float) -> str:
    """The two ends, with a digit more than a coarse middle has, so that an order by lower ends can be followed."""
    decimals = max(_decimals(low, high), min(2, _decimals(low, high) + 1))
    return f"{low:.{decimals}f} to {high:.{decimals}f}"


def untold(low: float | None) -> str:
    """Why no speedup is shown: nothing was timed where the interval begins at 0, else times were too noisy."""
    return "not timed" if low == 0 else "too noisy to tell"


def in_words(score: float, low: float | None, high: float | None, *, profile: str) -> str:
    """What an evaluation on `profile` says of the reference's time over the submission's.

    A practice profile says only which way, and not even that near one; an interval that contains 1 says
    that no difference was seen.
    """
    if not is_informative(low, high):
        return untold(low)
    is_practice = not profiles.get(profile).is_ranked_by_speed
    most = _ALIKE if is_practice else 1.0
    is_open = low is not None and high is not None and low <= most and high >= 1 / most
    if is_practice:
        return "about as fast" if is_open else "faster here" if score > 1 else "slower here"
    return _OPEN if is_open else factor(score, low, high)


def in_short(score: float, low: float | None, high: float | None, *, profile: str) -> str:
    """The same for narrow cells, whose tables say what the sign means."""
    words = in_words(score, low, high, profile=profile)
    return "≈ 1×" if words == _OPEN else words  # noqa: RUF001 - the sign is meant
