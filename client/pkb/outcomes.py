"""What evaluations, times and checks amount to."""

import math

from .results import EvaluationBrief, OutputCheck

_WIDEST = 10.0
_ALIKE = 1.5
PRACTICE = frozenset({"cpux2", "cpux4", "gpu1r2", "gpu1r4", "gpu1r8"})
"""Profiles whose times are indicative: there a speedup is a word and no number, as on the site's pages."""
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


def speedup(
    score: float | None, low: float | None = None, high: float | None = None, *, profile: str | None = None
) -> str:
    """A speedup on `profile` in words, with its interval and no more digits than that justifies.

    The rule of the site's pages. A mean over problems has no profile.
    """
    if score is None or not is_informative(low, high):
        return "times too noisy to tell a speedup"
    first = min(4, max(0, -math.floor(math.log10(score)))) if score > 0 else 0
    digits, ends = 2 - math.floor(math.log10(max(score, 1))), ""
    if low is not None and high is not None and low < high:
        digits = min(4, max(0, -math.floor(math.log10((high - low) / 2))))
        places = max(digits, min(2, digits + 1))
        ends = f" ({low:.{places}f} to {high:.{places}f})"
    most = _ALIKE if profile in PRACTICE else 1.0
    is_open = low is not None and high is not None and low <= most and high >= 1 / most
    if profile in PRACTICE:
        words = "about as fast as the reference" if is_open else f"{'faster' if score > 1 else 'slower'} here"
    elif is_open:
        words = "not distinguishable from the reference"
    else:
        words = f"{score:.{max(first, digits)}f}x the reference's speed"
    return f"{words}{ends}"
