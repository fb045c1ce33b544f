"""What evaluations, times and checks amount to."""

import math

from .results import EvaluationBrief, OutputCheck

_WIDEST = 10.0
RETRIED = frozenset({"JUDGE_FAILURE", "BASELINE_UNSTABLE", "CANCELLED", "UNSERVED"})
"""Endings that say nothing of the program: the same one is submitted again."""
UNMEASURED = RETRIED | {"JUDGE_ERROR", "UNSUPPORTED"}
"""Endings after which nobody knows whether the program is correct."""
HACKS = frozenset({"TAMPERED", "FORBIDDEN", "STALE_OUTPUT"})
"""Verdicts on a program that cheats or breaks a written rule."""


def has_ended(evaluation: EvaluationBrief) -> bool:
    """Whether an evaluation will not change any more."""
    return evaluation.state in {"finished", "cancelled", "unserved"}


def has_passed(evaluation: EvaluationBrief) -> bool:
    """Whether its verdict is PASSED."""
    return evaluation.verdict == "PASSED"


def is_right(check: OutputCheck) -> bool:
    """Whether every compared element was correct."""
    return not check.wrong_elements and (check.max_error <= 1 or bool(check.extreme_elements))


def is_informative(low: float | None, high: float | None) -> bool:
    """Whether a speedup's interval says anything; otherwise times were too noisy. The site's pages mean the same."""
    return low is None or high is None or high <= _WIDEST * low


def speedup(score: float | None, low: float | None = None, high: float | None = None) -> str:
    """A speedup in words, with its interval and no more digits than that justifies: the rule of the site's pages."""
    if score is None or not is_informative(low, high):
        return "times too noisy to tell a speedup"
    first = min(4, max(0, -math.floor(math.log10(score)))) if score > 0 else 0
    if low is None or high is None or low >= high:
        return f"{score:.{max(first, 2 - math.floor(math.log10(max(score, 1))))}f}x the reference's speed"
    places = min(4, max(0, -math.floor(math.log10((high - low) / 2))))
    words = f"{score:.{max(first, places)}f}x the reference's speed"
    if low <= 1 <= high:
        words = "not distinguishable from the reference"
    ends = max(places, min(2, places + 1))
    return f"{words} ({low:.{ends}f} to {high:.{ends}f})"
