"""The score of a submission, the times behind it, and what counts as faster."""

from typing import Annotated

from msgspec import Meta

from evaluator.contract.base import MOST_BLOCKS, MOST_RANKS, MOST_SIZES, Amount, Count, Message, Name, Positive, Real


def is_faster(low: float | None, *, than: float = 1.0) -> bool:
    """Whether a speedup whose interval begins at `low` is significantly above `than`: its whole interval is.

    `than` = 1 is the reference. Boards, people, models, runs, agents, exports and the API all mean this by "faster".
    None, for a program that was not timed, is faster than nothing.
    """
    return low is not None and low > than


_WIDEST = 10.0


def is_informative(low: float | None, high: float | None) -> bool:
    """Whether a speedup's interval says anything: its ends are not more than tenfold apart.

    Two equal programs can differ by as much where calls take hardly longer than empty ones, as on a busy practice
    board. The record keeps such a score; pages, commands and messages say that the times were too noisy to tell. True
    where no interval was kept.
    """
    return low is None or high is None or high <= _WIDEST * low


class TimeSummary(Message, frozen=True, kw_only=True):
    """Times of a series of calls in microseconds; each is the maximum over ranks."""

    median_us: Positive
    p10_us: Positive
    p90_us: Positive
    calls: Count


class SizeTiming(Message, frozen=True, kw_only=True):
    """Candidate and reference side by side at one size, in times less those of an empty call.

    `ratios` holds one reference / candidate value per block A B B A. `score` is their trimmed mean (of logarithms) and
    `low` to `high` its interval. `floor_us`
    is None where no floor applies. `rank_medians_us` is the candidate's median per rank. `empty_us` was taken off the
    reference's times and `candidate_empty_us` off the candidate's: what an empty call takes from its beginning to its
    end. Of that, `forgeable_us` grows with the bytes that are unsealed and fingerprinted: so much could a program gain
    that does both inside its own kernels. `claimed_us` is the time that ranks report themselves, a cross-check.
    `looped_us` and `baseline_looped_us` are calls back to back on unchanging inputs, as the published harness times
    them; they rank nothing.
    """

    size: Name
    candidate: TimeSummary
    baseline: TimeSummary
    ratios: Annotated[tuple[Positive, ...], Meta(max_length=MOST_BLOCKS)]
    rank_medians_us: Annotated[tuple[Positive, ...], Meta(max_length=MOST_RANKS)]
    score: Positive
    low: Positive
    high: Positive
    floor_us: Amount | None = None
    empty_us: Amount
    candidate_empty_us: Real
    forgeable_us: Amount
    claimed_us: Amount | None = None
    looped_us: Amount | None = None
    baseline_looped_us: Amount | None = None


class Timing(Message, frozen=True, kw_only=True):
    """The score: geometric mean over sizes of the speedup, and the interval that holds it with probability `coverage`.

    `blocks` are the speedups of the blocks that all sizes have, combined. `rule` says how calls became a score
    (`SCORE_RULE`); scores of different rules are not compared.
    """

    score: Positive
    low: Positive
    high: Positive
    blocks: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=MOST_BLOCKS)]
    sizes: Annotated[tuple[SizeTiming, ...], Meta(max_length=MOST_SIZES)]
    coverage: Annotated[float, Meta(gt=0, lt=1)] = 0.95
    rule: Annotated[int, Meta(ge=1, le=1000)]

    def __post_init__(self) -> None:
        if not self.low <= self.score <= self.high:
            raise ValueError(f"the score {self.score} lies outside its interval {self.low} to {self.high}")
