"""Verdicts, findings, and how outputs compared with the expected ones."""

from enum import StrEnum

from evaluator.contract.message import Message


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


class ErrorMap(Message, frozen=True, kw_only=True):
    """Where the wrong elements of one rank's output are.

    `counts` is a grid of at most 32 by 32 over the last two dimensions of `shape`, counts over the others added up.
    `shards` counts them in as many equal parts along `shard_dimension` as there are ranks (empty where no dimension
    divides so). `largest_at` is the index of the largest error, `sentence` the pattern in words.
    """

    shape: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]
    largest_at: tuple[int, ...]
    shard_dimension: int | None = None
    shards: tuple[int, ...] = ()
    pattern: ErrorPattern
    sentence: str


class Finding(Message, frozen=True, kw_only=True):
    """One verdict that the evidence supports, with where and why; a report lists all, the first decides."""

    verdict: Verdict
    message: str
    rank: int | None = None
    size: str | None = None
    output: str | None = None
    file: str | None = None
    line: int | None = None
    error_map: ErrorMap | None = None


class OutputCheck(Message, frozen=True, kw_only=True):
    """How one rank's output compared with the expected output, over the checked calls of one size.

    `max_error` is in units of the tolerance (1 is the limit); `rms_error` is relative to the reference's rms.
    `first_wrong` is the index of the first element beyond the tolerance. `extreme_elements` are beyond it too, and
    allowed: one in ten million elements (decision 0059). Reports of before 23 November 2026 have none.
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
    def is_within(self) -> bool:
        """Whether no element is beyond what the rule allows."""
        return not self.wrong_elements and (self.max_error <= 1 or bool(self.extreme_elements))


class SizeMemory(Message, frozen=True, kw_only=True):
    """Memory of one GPU in bytes: all of it, and the most that judge and submission used."""

    total_bytes: int
    judge_bytes: int
    submission_bytes: int


class SizeResult(Message, frozen=True, kw_only=True):
    """What was run and compared at one size; `memory` is of GPUs only."""

    size: str
    dims: dict[str, int]
    calls: int
    checked_calls: int
    outputs: tuple[OutputCheck, ...] = ()
    memory: SizeMemory | None = None
