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

Whether two runs differ is paired over the problems that both were measured on. Problems differ in difficulty far more
than models do, and intervals side by side would hide most differences. McNemar's exact test (1947) looks at the
problems that one run solves and the other does not. If the runs are equally good, each of these is a fair coin. The
bootstrap (Efron, 1979) draws as many problems again, with replacement, and says between which values the difference of
correct@1 lies in 95 % of the draws.

What a program ended as is said in failure modes of ours, or in the seven classes of the published benchmark. The
publication gives the classes and no rule. The rule here is ours. It goes by the verdict, and for what was raised by the
exception and its words.
"""

import math
import random
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate

from evaluator.contract import Verdict, is_faster

MODES = {
    "Passed": ("success", "", "PASSED"),
    "Wrong values": ("danger", "/", "WRONG_RESULT NOT_FINITE NONDETERMINISTIC INPUT_MUTATED"),
    "Wrong shape or incomplete": ("code-function", "x", "WRONG_SHAPE INCOMPLETE_OUTPUT STALE_OUTPUT"),
    "Does not build or import": ("warning", "\\", "COMPILE_ERROR IMPORT_ERROR LIMIT_EXCEEDED"),
    "Fails while running": ("code-meta", "-", "RUNTIME_ERROR CRASHED OUT_OF_MEMORY EARLY_EXIT"),
    "Hangs": ("accent", "|", "DEADLOCK TIMEOUT"),
    "Refused by the rules": (
        "code-keyword",
        "+",
        "FORBIDDEN TAMPERED TIMING_INCONSISTENT BELOW_FLOOR TRAFFIC_BELOW_MINIMUM",
    ),
    "Unsupported or our failure": ("text-faint", ".", "UNSUPPORTED JUDGE_ERROR JUDGE_FAILURE BASELINE_UNSTABLE"),
}
"""Verdicts that readers take for one way to end, with the tone and the pattern of its bar."""

CORRECT = "Correct"
MISMATCH = "Output mismatch"
SHAPE = "Tensor shape error"
SYNTAX = "nvcc/syntax errors"
TYPO = "Attribute / name / API typo"
RUNTIME = "Runtime error"
DEADLOCK = "Deadlock"
REFUSED = "Refused by our rules alone"
NOT_MEASURED = "Not measured"

_BY_VERDICT = {
    verdict: name
    for name, verdicts in {
        CORRECT: "PASSED",
        MISMATCH: "WRONG_RESULT NOT_FINITE NONDETERMINISTIC INPUT_MUTATED STALE_OUTPUT INCOMPLETE_OUTPUT",
        SHAPE: "WRONG_SHAPE",
        SYNTAX: "COMPILE_ERROR",
        RUNTIME: "RUNTIME_ERROR IMPORT_ERROR CRASHED OUT_OF_MEMORY EARLY_EXIT LIMIT_EXCEEDED",
        DEADLOCK: "DEADLOCK TIMEOUT",
        REFUSED: "FORBIDDEN TAMPERED TIMING_INCONSISTENT BELOW_FLOOR TRAFFIC_BELOW_MINIMUM",
    }.items()
    for verdict in map(Verdict, verdicts.split())
}
_TYPO = (
    r"\b(Attribute|Name|UnboundLocal|Import|ModuleNotFound)Error\b"
    r"|TypeError: .*(incompatible function arguments|unexpected keyword|positional argument)"
)
_SHAPE = (
    r"size of tensor|shapes? .*(cannot|invalid|mismatch|match)|invalid for input of size|split_sizes"
    r"|mismatch in shape|sizes? (do not|don't|must) match|number of dimensions|out of range .*dimension"
)
_RAISED = {SYNTAX: r"\b(Syntax|Indentation|Tab)Error\b", TYPO: _TYPO, SHAPE: _SHAPE}
"""What an exception's words say, in the order in which they are looked for."""


def published_class(verdict: str, message: str) -> str:
    """The published class of a program that got `verdict` with `message`; empty where there is no verdict.

    What the profile or the judge could not measure has the class `NOT_MEASURED`. What only this site's rules refuse has
    `REFUSED`.
    """
    if not verdict:
        return ""
    if verdict in (Verdict.RUNTIME_ERROR, Verdict.IMPORT_ERROR):
        return next((name for name, words in _RAISED.items() if re.search(words, message)), RUNTIME)
    return _BY_VERDICT.get(Verdict(verdict), NOT_MEASURED)


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


LEVEL = 0.05
"""Below this probability runs count as different."""
DRAWS = 2000


@cache
def mcnemar(only_a: int, only_b: int) -> float:
    """The two-sided exact p-value of `only_a` against `only_b` problems that one of two runs solves alone."""
    count = only_a + only_b
    tail = sum(math.comb(count, lower) for lower in range(min(only_a, only_b) + 1))
    return min(1.0, math.ldexp(tail, 1 - count))


def bootstrap(differences: Sequence[float], *, draws: int = DRAWS, seed: int = 0) -> tuple[float, float]:
    """The 95 % percentile interval of the mean of `differences`, one per problem; (0, 0) of none."""
    if not differences:
        return (0.0, 0.0)
    draw = random.Random(seed)  # noqa: S311 - the same page twice shows the same interval
    means = sorted(math.fsum(draw.choices(differences, k=len(differences))) / len(differences) for _ in range(draws))
    return means[round(0.025 * (draws - 1))], means[round(0.975 * (draws - 1))]


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Two runs over the `problems` that both were measured on.

    `only_a` and `only_b` count problems whose first sample only that run solves, `p_value` is McNemar's of them.
    `difference` is correct@1 of A less that of B, between `low` and `high`.
    """

    problems: int
    only_a: int
    only_b: int
    p_value: float
    difference: float
    low: float
    high: float

    @property
    def is_distinguishable(self) -> bool:
        """Whether so uneven a result would be rare between runs that are equally good."""
        return self.p_value < LEVEL


def paired(a: Samples, b: Samples, *, able: frozenset[str]) -> Paired:
    """Compare two runs over `able`, the problems that the profiles of both can judge.

    A problem without a program counts as not solved. One that a run's judge or profile could not measure is left out.
    """
    shares_a, shares_b = _shares(a, able), _shares(b, able)
    common = sorted(shares_a.keys() & shares_b.keys())
    differences = [shares_a[slug][1] - shares_b[slug][1] for slug in common]
    only_a = sum(shares_a[slug][0] and not shares_b[slug][0] for slug in common)
    only_b = sum(shares_b[slug][0] and not shares_a[slug][0] for slug in common)
    low, high = bootstrap(differences)
    return Paired(
        problems=len(common),
        only_a=only_a,
        only_b=only_b,
        p_value=mcnemar(only_a, only_b),
        difference=math.fsum(differences) / len(common) if common else 0.0,
        low=low,
        high=high,
    )


def _shares(samples: Samples, able: frozenset[str]) -> dict[str, tuple[bool, float]]:
    """Of every measured problem whether the first sample solves it, and which share of the samples do."""
    return {slug: found for slug in able if (found := _share(samples.get(slug, ()))) is not None}


def _share(samples: Sequence[Sample]) -> tuple[bool, float] | None:
    known = [sample.is_correct for sample in samples if not sample.is_open]
    if not known:
        return None if samples else (False, 0.0)
    return known[0], sum(known) / len(known)


def places(runs: Sequence[tuple[Samples, frozenset[str]]]) -> list[int]:
    """The places of runs that stand in order, the best first: one more than how many are distinguishably better.

    Runs that cannot be told apart from the best share the first place.
    """
    known = [_shares(samples, able) for samples, able in runs]
    found = [(frozenset(shares), frozenset(slug for slug in shares if shares[slug][0])) for shares in known]
    return list(accumulate((1 + sum(_is_better(other, than=own) for other in found) for own in found), max))


def _is_better(other: tuple[frozenset[str], frozenset[str]], *, than: tuple[frozenset[str], frozenset[str]]) -> bool:
    """Whether a run is distinguishably better; both are the problems measured, and those solved."""
    (measured, solved), (own_measured, own_solved) = other, than
    ahead, behind = len((solved - own_solved) & own_measured), len((own_solved - solved) & measured)
    return ahead > behind and mcnemar(ahead, behind) < LEVEL
