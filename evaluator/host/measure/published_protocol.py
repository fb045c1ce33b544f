"""The published protocol's time: calls back to back over copies of one call's inputs, larger together than L2.

Source: the published sweeps' protocol of June 2026, "bitwise identical inputs, groups of inputs larger than L2, 500
warm-up iterations, 100 back-to-back iterations". Arguments that calls change are changed on, as there. The host's clock
takes the time, less one call with its request and answer.
"""

from collections.abc import Callable

from evaluator.contract import PUBLISHED_TIMED_CALLS, PUBLISHED_WARM_CALLS, PublishedTime
from evaluator.host.ranks.oracle_group import OpenedSize

_MOST_GROUPS = PUBLISHED_TIMED_CALLS
"""Small inputs stay within L2: more copies than timed calls would change nothing."""

_TRIED_CALLS, _LEAST_CALLS = 4, 5

Loop = Callable[[int, int], int]
"""Nanoseconds of so many calls over so many groups of inputs."""


def timed(
    size: str, loops: tuple[Loop, Loop], input_bytes: int, opened: OpenedSize, *, limit_s: float
) -> PublishedTime:
    """Time submission and reference (`loops`), each for at most about `limit_s`, on a call's inputs.

    `input_bytes` is what a rank takes in. Raises whatever a loop raises.
    """
    groups = min(_MOST_GROUPS, 1 + opened.cache_bytes // max(input_bytes, 1))
    slowest_ns = max(_per_call(loop, _TRIED_CALLS, groups) for loop in loops)
    share = min(1.0, limit_s * 1e9 / slowest_ns / (PUBLISHED_WARM_CALLS + PUBLISHED_TIMED_CALLS))
    warm, counted = (max(_LEAST_CALLS, int(share * calls)) for calls in (PUBLISHED_WARM_CALLS, PUBLISHED_TIMED_CALLS))
    ours_ns, reference_ns = (_warm_per_call(loop, warm, counted, groups) for loop in loops)
    return PublishedTime(
        size=size,
        submission_us=ours_ns / 1000,
        reference_us=reference_ns / 1000,
        warm_calls=warm,
        timed_calls=counted,
        groups=groups,
        group_bytes=groups * input_bytes,
        cache_bytes=opened.cache_bytes,
    )


def _warm_per_call(loop: Loop, warm: int, counted: int, groups: int) -> float:
    loop(warm, groups)
    return _per_call(loop, counted, groups)


def _per_call(loop: Loop, times: int, groups: int) -> float:
    """Nanoseconds of one of `times` calls less the shortest single one; the first loop makes the copies."""
    loop(1, groups)
    once = min(loop(1, groups) for _ in range(_LEAST_CALLS))
    return max(1.0, (loop(times + 1, groups) - once) / times)
