"""The figures of a run, as pure functions of the outcomes of its samples.

correct@k is the unbiased estimator of pass@k of Chen et al. (2021, "Evaluating Large Language Models Trained on Code",
arXiv 2107.03374, equation 1): k samples are drawn without replacement from the n that there are, of which c are
correct. The chance that at least one is correct is 1 - C(n - c, k) / C(n, k). It is averaged over problems.

fast_p is the share of problems solved with a speedup above p, of Ouyang et al., "KernelBench: Can LLMs Write Efficient
GPU Kernels?" (2025, arXiv 2502.10517). By interval, which is what this site means by "faster", the whole interval of
the speedup has to lie above p. By point estimate, as in publications, the measured speedup alone has to. fast_p@k puts
"correct and faster than p" for "correct" into the same estimator.

Publications also call "best of k" pass@k: the share of problems that one of the first k samples solves. With exactly k
samples it is correct@k. With more samples correct@k uses them all, and has the smaller variance.

What is not measured counts neither as wrong nor in an interval: samples that wait for their verdict, and problems that
ended because the profile lacks something or the judge failed. A run in which a sample waits has no estimates, only
bounds over all problems.

The interval is Wilson's (1927) score interval for the mean over problems, at 95 %. A problem's value lies between 0 and
1, so its variance is at most m (1 - m) for a mean m, that of a coin. So the interval is never too narrow for
independent problems. It says how much the figure would move with other problems of the same kind, not with other
samples.
"""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from evaluator.contract import Verdict, is_faster

_Z = 1.959963984540054
"""The 97.5 % point of the normal distribution."""

_NOT_OF_THE_PROGRAM = frozenset(
    {
        Verdict.UNSUPPORTED.value,
        Verdict.BASELINE_UNSTABLE.value,
        Verdict.JUDGE_ERROR.value,
        Verdict.JUDGE_FAILURE.value,
    }
)
"""Verdicts that say why a program was not measured."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The outcome of one sample of one problem.

    `score` is the speedup of a correct one, `low` and `high` are the ends of its interval, `primitives` what it used.
    `verdict` is empty while it is pending, and where no ranked attempt ended. `other_speedups` are by other ways of
    timing (`portal.catalog.size_times`).
    """

    verdict: str
    is_pending: bool = False
    score: float | None = None
    low: float | None = None
    high: float | None = None
    primitives: tuple[str, ...] = ()
    ending: str = ""
    other_speedups: Mapping[str, float] = field(default_factory=dict)

    def by(self, way: str) -> "Sample":
        """The same with the speedup by another way of timing. It has no interval, so its point stands for one."""
        point = self.other_speedups.get(way)
        return replace(self, score=point, low=point, high=point)

    @property
    def is_correct(self) -> bool:
        """Whether it passed at all ranked sizes."""
        return self.verdict == "PASSED"

    @property
    def is_open(self) -> bool:
        """Whether nobody knows if it is correct: it waits, or the profile or the judge could not tell."""
        return self.is_pending or self.verdict in _NOT_OF_THE_PROGRAM

    def is_fast(self, p: float | None, *, by_point: bool = False) -> bool:
        """Whether it is correct and faster than `p` times the reference, by its interval or by its point estimate.

        Without a p, whether it is correct.
        """
        return self.is_correct and (p is None or is_faster(self.score if by_point else self.low, than=p))


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure at k samples with its interval."""

    k: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Between what a figure over all problems lies, whatever the samples that are not measured would turn out to be."""

    low: float
    high: float


def chance_of_one(*, samples: int, successes: int, k: int) -> float:
    """The chance that at least one of `k` samples drawn from `samples` is among the `successes`.

    Raises:
        ValueError: the numbers contradict each other.
    """
    if not (0 <= successes <= samples and 1 <= k <= samples):
        raise ValueError(f"{successes} successes among {samples} samples, {k} drawn")
    if samples - successes < k:
        return 1.0
    # The product form of 1 - C(n - c, k) / C(n, k) stays exact where the binomials are huge.
    return 1.0 - math.prod(1.0 - k / drawn for drawn in range(samples - successes + 1, samples + 1))


def wilson(mean: float, *, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval for a mean of `count` values between 0 and 1."""
    if count == 0:
        return (0.0, 1.0)
    weight = _Z * _Z / count
    centre = (mean + weight / 2) / (1 + weight)
    half = _Z / (1 + weight) * math.sqrt(mean * (1 - mean) / count + weight / (4 * count))
    return (max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half)))


def estimate(successes: Sequence[tuple[int, int]], *, k: int, problems: int) -> Estimate:
    """The mean over `problems` of the chance to succeed with `k` samples.

    Args:
        successes: (samples, successes) of every problem that has samples. A problem without any, and a sample that is
            missing to make k, count as failures.
        k: how many samples one may look at.
        problems: over how many problems the mean is taken.
    """
    chances = (chance_of_one(samples=max(samples, k), successes=won, k=k) for samples, won in successes if won > 0)
    mean = math.fsum(chances) / problems if problems else 0.0
    low, high = wilson(min(1.0, mean), count=problems)
    return Estimate(k=k, value=min(1.0, mean), low=low, high=high)


Samples = Mapping[str, Sequence[Sample]]
"""The samples of each problem, by slug."""


def bounds(samples: Samples, p: float | None = None, *, k: int, problems: int, unable: int = 0) -> Bounds:
    """The bounds of correct@k over all `problems` problems, or of fast_p@k, `unable` of which the profile cannot judge.

    A problem without a program counts as failed in both.
    """
    most = [(len(found), sum(sample.is_fast(p) or sample.is_open for sample in found)) for found in samples.values()]
    high = estimate(most, k=k, problems=problems).value + (unable / problems if problems else 0.0)
    return Bounds(low=fast_at(samples, p, k=k, problems=problems).value, high=min(1.0, high))


def best_of(samples: Samples, *, k: int, problems: int) -> Estimate:
    """Best of k over `problems` problems: the share of which one of the first `k` samples is correct."""
    outcomes = (any(sample.is_correct for sample in found[:k]) for found in samples.values())
    return estimate([(k, k * is_solved) for is_solved in outcomes], k=k, problems=problems)


def fast_at(samples: Samples, p: float | None, *, k: int, problems: int, by_point: bool = False) -> Estimate:
    """fast_p@k over `problems` problems: correct and more than `p` times as fast as the reference. None: correct@k."""
    counts = [(len(found), sum(each.is_fast(p, by_point=by_point) for each in found)) for found in samples.values()]
    return estimate(counts, k=k, problems=problems)


def fast_curve(samples: Samples, *, problems: int, by_point: bool = False) -> tuple[tuple[float, float], ...]:
    """fast_p@1 for every p: (p, share), valid from that p to the next.

    It falls where some sample's interval begins, or at its speedup. The first p is 0.
    """
    weights: dict[float, float] = {}
    for found in samples.values():
        for sample in found:
            if sample.is_fast(0.0, by_point=by_point):
                end = sample.score if by_point else sample.low
                assert end is not None  # or it would not be fast
                weights[end] = weights.get(end, 0.0) + 1 / len(found)
    left, points = 0.0, []
    for end in sorted(weights, reverse=True):
        points.append((end, left / problems))
        left += weights[end]
    return ((0.0, left / problems if problems else 0.0), *reversed(points))


def faster(samples: Samples, *, by_point: bool = False) -> int:
    """How many problems have a sample that is faster than the reference."""
    return sum(any(sample.is_fast(1.0, by_point=by_point) for sample in found) for found in samples.values())


def measured(samples: Samples) -> dict[str, Sequence[Sample]]:
    """Without the samples that are not measured, and without the problems that have no other."""
    known = {slug: [sample for sample in found if not sample.is_open] for slug, found in samples.items()}
    return {slug: found for slug, found in known.items() if found}


def best_scores(samples: Samples) -> dict[str, float]:
    best = {}
    for slug, found in samples.items():
        scores = [sample.score for sample in found if sample.is_correct and sample.score is not None]
        if scores:
            best[slug] = max(scores)
    return best


def solved(samples: Samples) -> int:
    return sum(any(sample.is_correct for sample in found) for found in samples.values())


def verdict_counts(samples: Samples) -> dict[str, int]:
    """How many samples ended in each verdict, the most frequent first; those without a verdict are not among them."""
    counted = Counter(sample.verdict for found in samples.values() for sample in found if sample.verdict)
    return dict(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))


@dataclass(frozen=True, kw_only=True)
class WithoutVerdict:
    """Samples that have no verdict: still pending, never submitted as ranked, or never made.

    `missing` counts what lacks to make k samples of every problem. Estimates count it and `unranked` as failures: there
    is no program that could be right.
    """

    pending: int
    unranked: int
    missing: int


def without_verdict(samples: Samples, *, k: int, problems: int) -> WithoutVerdict:
    """The samples without a verdict, of `k` for each of `problems` problems."""
    bare = [sample for found in samples.values() for sample in found if not sample.verdict]
    pending = sum(sample.is_pending for sample in bare)
    missing = sum(max(0, k - len(found)) for found in samples.values()) + k * (problems - len(samples))
    return WithoutVerdict(pending=pending, unranked=len(bare) - pending, missing=missing)


def primitives_used(samples: Samples) -> dict[str, int]:
    """On how many of the solved problems some correct sample uses each primitive, the most used first."""
    used = Counter(
        name
        for found in samples.values()
        for name in {name for sample in found if sample.is_correct for name in sample.primitives}
    )
    return dict(sorted(used.items(), key=lambda pair: (-pair[1], pair[0])))


def geometric_mean(values: Sequence[float]) -> float | None:
    return statistics.geometric_mean(values) if values else None
