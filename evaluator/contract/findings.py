"""Verdicts, findings, and how outputs compared with the expected ones."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from evaluator.contract.base import MOST_RANKS, Amount, Count, Line, Message, Name, Rank, Sentence, Whole


class Verdict(StrEnum):
    """The one-word outcome of an evaluation (docs/judge/verdicts.md explains each)."""

    PASSED = "PASSED"
    WRONG_RESULT = "WRONG_RESULT"
    WRONG_SHAPE = "WRONG_SHAPE"
    NOT_FINITE = "NOT_FINITE"
    INPUT_MUTATED = "INPUT_MUTATED"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    COMPILE_ERROR = "COMPILE_ERROR"
    IMPORT_ERROR = "IMPORT_ERROR"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    CRASHED = "CRASHED"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    DEADLOCK = "DEADLOCK"
    TIMEOUT = "TIMEOUT"
    EARLY_EXIT = "EARLY_EXIT"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    FORBIDDEN = "FORBIDDEN"
    STALE_OUTPUT = "STALE_OUTPUT"
    INCOMPLETE_OUTPUT = "INCOMPLETE_OUTPUT"
    TIMING_INCONSISTENT = "TIMING_INCONSISTENT"
    BELOW_FLOOR = "BELOW_FLOOR"
    TRAFFIC_BELOW_MINIMUM = "TRAFFIC_BELOW_MINIMUM"
    TAMPERED = "TAMPERED"
    UNSUPPORTED = "UNSUPPORTED"
    BASELINE_UNSTABLE = "BASELINE_UNSTABLE"
    JUDGE_ERROR = "JUDGE_ERROR"
    JUDGE_FAILURE = "JUDGE_FAILURE"


class ErrorPattern(StrEnum):
    """The pattern of the wrong elements of an output."""

    EVERYWHERE = "everywhere"
    ONE_SHARD = "one_shard"
    ROWS = "rows"
    COLUMNS = "columns"
    BLOCK = "block"
    SCATTERED = "scattered"


Index = Annotated[tuple[Count, ...], Meta(max_length=16)]
"""The indices of an element, or the extents of a tensor."""

_SIDE = Meta(min_length=1, max_length=32)


class ErrorMap(Message, frozen=True, kw_only=True):
    """Where the wrong elements of one rank's output are.

    `counts` is a grid of at most 32 by 32 over the last two dimensions of `shape`, counts over the others added up.
    `shards` counts them in as many equal parts along `shard_dimension` as there are ranks (empty where no dimension
    divides so). `largest_at` is the index of the largest error, `sentence` the pattern in words.
    """

    shape: Index
    counts: Annotated[tuple[Annotated[tuple[Count, ...], _SIDE], ...], _SIDE]
    largest_at: Index
    shard_dimension: Count | None = None
    shards: Annotated[tuple[Count, ...], Meta(max_length=MOST_RANKS)] = ()
    pattern: ErrorPattern
    sentence: Sentence

    def __post_init__(self) -> None:
        if len({len(row) for row in self.counts}) > 1:
            raise ValueError("the rows of an error map have different lengths")


class Finding(Message, frozen=True, kw_only=True):
    """One verdict that the evidence supports, with where and why; a report lists all, the first decides."""

    verdict: Verdict
    message: Sentence
    rank: Rank | None = None
    size: Name | None = None
    output: Name | None = None
    file: Name | None = None
    line: Line | None = None
    error_map: ErrorMap | None = None


class OutputCheck(Message, frozen=True, kw_only=True):
    """How one rank's output compared with the expected output, over the checked calls of one size.

    `max_error` is in units of the tolerance (1 is the limit); `rms_error` is relative to the reference's rms.
    `first_wrong` is the index of the first element beyond the tolerance. `extreme_elements` are beyond it too, and
    allowed: one in a million of a large output (decision 0059). Reports of before 23 November 2026 have none.
    """

    rank: Rank
    output: Name
    elements: Count
    wrong_elements: Count
    max_error: Amount
    rms_error: Amount
    first_wrong: Index | None = None
    extreme_elements: Count = 0

    @property
    def is_within(self) -> bool:
        """Whether no element is beyond what the rule allows."""
        return not self.wrong_elements and (self.max_error <= 1 or bool(self.extreme_elements))


class SizeMemory(Message, frozen=True, kw_only=True):
    """Memory of one GPU in bytes: all of it, and the most that judge and submission used."""

    total_bytes: Count
    judge_bytes: Whole
    submission_bytes: Count


class SizeResult(Message, frozen=True, kw_only=True):
    """What was run and compared at one size; `memory` is of GPUs only."""

    size: Name
    dims: Annotated[dict[Name, Count], Meta(max_length=64)]
    calls: Count
    checked_calls: Count
    outputs: Annotated[tuple[OutputCheck, ...], Meta(max_length=2048)] = ()
    memory: SizeMemory | None = None
