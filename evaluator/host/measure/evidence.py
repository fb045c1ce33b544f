"""The evidence of an evaluation: findings, checks, times, stages. Becomes the report."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from evaluator.contract import (
    CallKind,
    CallRecord,
    Finding,
    OutputCheck,
    RankState,
    SizeMemory,
    SizeResult,
    Stage,
    StageTime,
    Verdict,
)
from evaluator.host.ranks.oracle_group import PreparedInputs, RankCheck
from problems.schema import Regime

_KINDS = {
    CallKind.SKEWED: " (ranks started at different times)",
    CallKind.NEAR: " (only a few elements were new)",
    CallKind.RECORDED: " (the profiler recorded it)",
}


MOST_MAPS = 16
"""How many maps of wrong elements a report may hold."""


class Ended(Exception):
    """The evaluation has its findings and stops; not an error."""


@dataclass
class SizeEvidence:
    """Calls and checks at one size, and the call times in nanoseconds if it was timed."""

    size: str
    dims: dict[str, int]
    calls: int = 0
    checked_calls: int = 0
    worst: dict[tuple[int, str], OutputCheck] = field(default_factory=dict)
    records: list[CallRecord] = field(default_factory=list)
    payload_bytes: int = 0
    memory: SizeMemory | None = None

    def note_payload(self, inputs: Sequence[PreparedInputs], output_bytes: Sequence[int]) -> None:
        """Keep the most bytes of inputs and outputs of one rank in one call."""
        sizes = [item.size + out for item, out in zip(inputs, output_bytes, strict=True)]
        self.payload_bytes = max(self.payload_bytes, *sizes)

    def add(self, checks: list[RankCheck]) -> None:
        """Keep the worst check per rank and output."""
        self.checked_calls += 1
        for item in checks:
            known = self.worst.get((item.rank, item.output))
            if known is None or _badness(item.check) > _badness(known):
                self.worst[item.rank, item.output] = item.check

    def result(self) -> SizeResult:
        """This size as the report shows it."""
        return SizeResult(
            size=self.size,
            dims=self.dims,
            calls=self.calls,
            checked_calls=self.checked_calls,
            outputs=tuple(self.worst[key] for key in sorted(self.worst)),
            memory=self.memory,
        )


def _badness(check: OutputCheck) -> tuple[int, float]:
    return check.wrong_elements, check.max_error


@dataclass
class Evidence:
    """Everything that will go into the report, in the order of time; `regime` is that of the call being made."""

    findings: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    sizes: list[SizeEvidence] = field(default_factory=list)
    ranks: tuple[RankState, ...] = ()
    seconds: dict[Stage, float] = field(default_factory=dict)
    regime: Regime | None = None

    def open_size(self, size: str, dims: dict[str, int]) -> SizeEvidence:
        """The evidence at `size`; a second worker group adds to that of the first."""
        for known in self.sizes:
            if known.size == size:
                known.records = []
                return known
        self.sizes.append(SizeEvidence(size=size, dims=dims))
        return self.sizes[-1]

    def note_disagreement(self) -> None:
        """Note that the first worker group was correct and the second was not."""
        if self.findings:
            message = f"correct in one worker group, not in a second one: {self.findings[-1].message}"
            self.findings.append(
                Finding(verdict=Verdict.NONDETERMINISTIC, message=message, size=self.findings[-1].size)
            )

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """Add the time spent inside to `stage`."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.monotonic() - start

    def stage_times(self) -> tuple[StageTime, ...]:
        """The stages that were run, in their order."""
        return tuple(StageTime(stage=stage, seconds=self.seconds[stage]) for stage in Stage if stage in self.seconds)

    def warn(self, finding: Finding) -> None:
        """Note, once, what would be a finding in ranked mode."""
        if not any(known.verdict is finding.verdict and known.rank == finding.rank for known in self.warnings):
            self.warnings.append(finding)

    def add(self, findings: Sequence[Finding]) -> None:
        """Keep `findings`; only the first maps of wrong elements are kept, because of their size."""
        for finding in findings:
            has_room = sum(known.error_map is not None for known in self.findings) < MOST_MAPS
            self.findings.append(finding if has_room else msgspec.structs.replace(finding, error_map=None))


def in_words(regime: Regime | None) -> str:
    """How a message names the regime of a call."""
    return "" if regime is None else f" (regime {regime.name}: {regime.words})"


def wrong_values(
    checks: Sequence[RankCheck],
    *,
    size: str,
    call: int,
    kind: CallKind = CallKind.PLAIN,
    regime: Regime | None = None,
) -> list[Finding]:
    """Findings from the checks of call number `call`; stale outputs are named so."""
    special = _KINDS.get(kind, "") if regime is None else in_words(regime)
    found = []
    for item in checks:
        if item.verdict is None:
            continue
        where = f"rank {item.rank}, call {call}{special}: "
        if item.stale is not None:
            message = f"{where}output {item.output!r} is the correct output of an earlier call, not of this one"
            found.append(_finding(item, Verdict.STALE_OUTPUT, message, size))
        found.append(_finding(item, item.verdict, where + item.message, size))
    return found


def _finding(item: RankCheck, verdict: Verdict, message: str, size: str) -> Finding:
    drawn = item.error_map if verdict is item.verdict else None
    return Finding(verdict=verdict, message=message, rank=item.rank, size=size, output=item.output, error_map=drawn)
