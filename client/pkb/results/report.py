"""The judge's record of an evaluation."""

from .result import Result


class Finding(Result, frozen=True, kw_only=True):
    """One verdict that the evidence supports, with where and why."""

    verdict: str
    message: str
    rank: int | None = None
    size: str | None = None
    output: str | None = None
    file: str | None = None
    line: int | None = None


class OutputCheck(Result, frozen=True, kw_only=True):
    """How one rank's output compared; `max_error` is in units of the tolerance.

    `extreme_elements` are beyond the limit and allowed: one in a million of a large output.
    """

    rank: int
    output: str
    elements: int
    wrong_elements: int
    max_error: float
    rms_error: float
    first_wrong: tuple[int, ...] | None = None
    extreme_elements: int = 0

    @property
    def is_right(self) -> bool:
        """Whether every compared element was correct."""
        return not self.wrong_elements and (self.max_error <= 1 or bool(self.extreme_elements))


class SizeMemory(Result, frozen=True, kw_only=True):
    """Memory of one GPU in bytes: all of it, and the peak use of judge and submission."""

    total_bytes: int
    judge_bytes: int
    submission_bytes: int


class SizeResult(Result, frozen=True, kw_only=True):
    """What was run and compared at one size; `memory` is of GPUs only."""

    size: str
    calls: int
    checked_calls: int
    dims: dict[str, int] = {}
    outputs: tuple[OutputCheck, ...] = ()
    memory: SizeMemory | None = None


class TimeSummary(Result, frozen=True, kw_only=True):
    """Times of a series of calls in microseconds, the slowest rank counting."""

    median_us: float
    p10_us: float
    p90_us: float
    calls: int


class SizeTiming(Result, frozen=True, kw_only=True):
    """Submission (`candidate`) and reference (`baseline`) side by side at one size, by the judge's clock.

    Times are less what an empty call takes: `candidate_empty_us` and `empty_us`. A program that forges the work around
    a call could gain `forgeable_us` at most. `looped_us` and `baseline_looped_us` are calls back to back on unchanging
    inputs, as the published harness times them; they rank nothing.
    """

    size: str
    candidate: TimeSummary
    baseline: TimeSummary
    ratios: tuple[float, ...] = ()
    score: float | None = None
    low: float | None = None
    high: float | None = None
    floor_us: float | None = None
    empty_us: float | None = None
    candidate_empty_us: float | None = None
    forgeable_us: float | None = None
    looped_us: float | None = None
    baseline_looped_us: float | None = None


_WIDEST = 10.0


def is_informative(low: float | None, high: float | None) -> bool:
    """Whether a speedup's interval says anything; otherwise times were too noisy. The site's pages mean the same."""
    return low is None or high is None or high <= _WIDEST * low


class Timing(Result, frozen=True, kw_only=True):
    """The speedup over the reference with its interval; scores of different rules are not comparable."""

    score: float
    low: float
    high: float
    rule: int = 1
    sizes: tuple[SizeTiming, ...] = ()


class RankState(Result, frozen=True, kw_only=True):
    """Where one rank was when the evaluation ended."""

    rank: int
    exit: str
    phase: str
    calls_done: int
    error: str | None = None
    stack: str | None = None
    log: str = ""


class BuildResult(Result, frozen=True, kw_only=True):
    """The compiler's output."""

    succeeded: bool
    seconds: float
    cached: bool
    command: str = ""
    log: str = ""


class Detection(Result, frozen=True, kw_only=True):
    """A hardware path that a submission uses, and the evidence for it."""

    primitive: str
    evidence: str
    detail: str


class Report(Result, frozen=True, kw_only=True):
    """The judge's record of an evaluation."""

    verdict: str
    message: str
    profile: str
    world_size: int
    mode: str
    dtype: str
    findings: tuple[Finding, ...] = ()
    sizes: tuple[SizeResult, ...] = ()
    timing: Timing | None = None
    ranks: tuple[RankState, ...] = ()
    build: BuildResult | None = None
    primitives: tuple[Detection, ...] = ()
    environment: dict[str, str] = {}
