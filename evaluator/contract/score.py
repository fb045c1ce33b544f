"""The score of a submission, and the times that it rests on."""

from evaluator.contract.message import Message


class TimeSummary(Message, frozen=True, kw_only=True):
    """Times of a series of calls in microseconds; each is the maximum over ranks."""

    median_us: float
    p10_us: float
    p90_us: float
    calls: int


class SizeTiming(Message, frozen=True, kw_only=True):
    """Candidate and reference side by side at one size.

    `ratios` holds one reference / candidate value per block A B B A; `floor_us` is None where no floor applies.
    `rank_medians_us` is the candidate's median per rank. `window_us` is the median of the host's window around a
    call, from the moment when contents became readable. `gap_us` is what lies between `GO`, the answer and the claim,
    and `band_us` how large that may be: the most that a forged claim could gain per call. `outside_us` and
    `outside_band_us` are the same of the whole window: the most that work done before `GO` could gain. `burst_us` is
    what a further call of a burst took, and `burst_band_us` how much that may be.
    """

    size: str
    candidate: TimeSummary
    baseline: TimeSummary
    ratios: tuple[float, ...]
    rank_medians_us: tuple[float, ...]
    floor_us: float | None = None
    window_us: float | None = None
    gap_us: float | None = None
    band_us: float | None = None
    outside_us: float | None = None
    outside_band_us: float | None = None
    burst_us: float | None = None
    burst_band_us: float | None = None


class Timing(Message, frozen=True, kw_only=True):
    """The score: median of the blocks' speedups, with the 3rd and 10th of 12 order statistics as interval."""

    score: float
    low: float
    high: float
    blocks: tuple[float, ...]
    sizes: tuple[SizeTiming, ...]

    def __post_init__(self) -> None:
        if not self.low <= self.score <= self.high:
            raise ValueError(f"the score {self.score} lies outside its interval {self.low} to {self.high}")
