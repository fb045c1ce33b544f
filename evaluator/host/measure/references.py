"""Timing the reference at one size, the way a submission is timed and at its steady speed."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from evaluator.host.ranks.oracle_group import Content, OpenedSize, OracleGroup, ReferenceTime

_PRIMED_RATIO = 1.1
_PRIMED_US = 25.0
"""What a call on contents seen once before may be shorter by, for launching varies by as much."""

_LEAST_PAIRS = 4


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What the calls before the first leg have shown.

    Attributes:
        call_s: the reference's time, in seconds.
        turn_s: what a call of it holds the ranks for, with its contents, in seconds.
        is_primed: whether the reference sees contents once before it is timed on them.
    """

    call_s: float
    turn_s: float
    is_primed: bool


class ReferenceClock:
    """Calls of the reference on ever new contents.

    Libraries look for a kernel when they meet a shape for the first time: a matrix product takes 104 us on an H200 then
    and 22 us when the shape has been met before (21 November 2026, torch 2.11.0+cu130). Where shapes follow from
    contents, as in a mixture of experts, new contents would time that search and no program; there the reference meets
    every contents once before it is timed, which is the speed it settles at in use. The search is told from the calls
    themselves: contents that come again are then much faster.
    """

    def __init__(self, oracle: OracleGroup, opened: OpenedSize, contents: Iterator[int]) -> None:
        self._oracle = oracle
        self._opened = opened
        self._contents = contents
        self._is_primed = False

    def open(self, *, pairs: int, seconds: float) -> Opening:
        """Make the first call, then up to `pairs` pairs of calls on the same contents, no new one after `seconds`."""
        self._time(self._fresh())
        start = time.monotonic()
        new: list[ReferenceTime] = []
        again: list[ReferenceTime] = []
        while len(new) < min(pairs, _LEAST_PAIRS) or (len(new) < pairs and time.monotonic() - start < seconds):
            content = self._fresh()
            new.append(self._time(content))
            again.append(self._time(content))
        turn_s = (time.monotonic() - start) / (2 * len(new))
        first_us, again_us = (median(call.longest_ns for call in calls) / 1000 for calls in (new, again))
        # Few pairs prove nothing; a practice board makes no more than one.
        if len(new) >= _LEAST_PAIRS:
            self._is_primed = first_us > max(_PRIMED_RATIO * again_us, again_us + _PRIMED_US)
        return Opening(
            call_s=(again_us if self._is_primed else first_us) * 1e-6,
            turn_s=turn_s * (2 if self._is_primed else 1),
            is_primed=self._is_primed,
        )

    def reopen(self, opening: Opening, *, calls: int) -> None:
        """Go on as `opening` found at the same size before, after a few calls."""
        self._is_primed = opening.is_primed
        for _ in range(calls):
            self.time()

    def time(self, *, as_rank: bool = False) -> ReferenceTime:
        """One call on new contents; with `as_rank` its ranks also do what oracle and sandbox ranks do around a call."""
        content = self._fresh()
        if self._is_primed:
            self._time(content)
        return self._time(content, as_rank=as_rank)

    def _fresh(self) -> Content:
        return Content(index=next(self._contents))

    def _time(self, content: Content, *, as_rank: bool = False) -> ReferenceTime:
        return self._oracle.time_reference(content, groups=self._opened.groups, as_rank=as_rank)
