"""The evidence of one worker group at one size, and the findings that end an evaluation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from evaluator.contract import (
    CallRecord,
    Finding,
    OutputCheck,
    RankState,
    SizeMemory,
    SizeResult,
)
from evaluator.host.measure import gpu_memory
from evaluator.host.ranks.oracle_group import PreparedInputs, RankCheck
from problems.spec.schema import Regime


class Ended(Exception):
    """The evaluation stops here: its findings decide. Not an error.

    Attributes:
        findings: what ended it, in the order of time.
        ranks: the last known state of every rank; empty where the ranks were not looked at.
    """

    def __init__(self, findings: Sequence[Finding], *, ranks: tuple[RankState, ...] = ()) -> None:
        super().__init__("; ".join(finding.message for finding in findings))
        self.findings = tuple(findings)
        self.ranks = ranks


@dataclass
class SizeEvidence:
    """Calls and checks of one worker group at one size, and the call times in nanoseconds if it was timed.

    `warnings` are what would be findings in ranked mode.
    """

    size: str
    dims: dict[str, int]
    calls: int = 0
    checked_calls: int = 0
    worst: dict[tuple[int, str], OutputCheck] = field(default_factory=dict)
    records: list[CallRecord] = field(default_factory=list)
    payload_bytes: int = 0
    memory: SizeMemory | None = None
    warnings: list[Finding] = field(default_factory=list)

    def note_payload(self, inputs: Sequence[PreparedInputs], output_bytes: Sequence[int]) -> None:
        """Keep the most bytes of inputs and outputs of one rank in one call."""
        sizes = [item.size + out for item, out in zip(inputs, output_bytes, strict=True)]
        self.payload_bytes = max(self.payload_bytes, *sizes)

    def add(self, checks: list[RankCheck]) -> None:
        """Keep the worst check per rank and output."""
        self.checked_calls += 1
        _keep_worst(self.worst, (item.check for item in checks))

    def warn(self, finding: Finding) -> None:
        """Note, once, what would be a finding in ranked mode."""
        warn_once(self.warnings, finding)

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


def joined(first: SizeResult, second: SizeResult) -> SizeResult:
    """The result of two worker groups at one size."""
    worst: dict[tuple[int, str], OutputCheck] = {}
    _keep_worst(worst, (*first.outputs, *second.outputs))
    return msgspec.structs.replace(
        first,
        calls=first.calls + second.calls,
        checked_calls=first.checked_calls + second.checked_calls,
        outputs=tuple(worst[key] for key in sorted(worst)),
        memory=gpu_memory.most(first.memory, second.memory),
    )


def _keep_worst(worst: dict[tuple[int, str], OutputCheck], checks: Iterable[OutputCheck]) -> None:
    """Add the worst check per rank and output to `worst`; among equals the earlier one stays."""
    for check in checks:
        known = worst.get((check.rank, check.output))
        if known is None or _badness(check) > _badness(known):
            worst[check.rank, check.output] = check


def _badness(check: OutputCheck) -> tuple[int, float]:
    return check.wrong_elements, check.max_error


def warn_once(warnings: list[Finding], finding: Finding) -> None:
    """Add a warning to `warnings`, where there is none of this verdict and rank."""
    if not any(known.verdict is finding.verdict and known.rank == finding.rank for known in warnings):
        warnings.append(finding)


def in_words(regime: Regime | None) -> str:
    """How a message names the regime of a call."""
    return "" if regime is None else f" (regime {regime.name}: {regime.words})"
