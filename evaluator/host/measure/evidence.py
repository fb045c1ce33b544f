"""The evidence of one worker group at one size, and the findings that end an evaluation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from evaluator.arena.protocol import Report
from evaluator.contract import CallKind, CallRecord, Finding, OutputCheck, RankState, SizeMemory, SizeResult
from evaluator.host.clock.call_clock import CallTime
from evaluator.host.job import Job
from evaluator.host.measure import gpu_memory
from evaluator.host.ranks.oracle_group import Comparison, InputSpec, PreparedInputs
from evaluator.oracle.messages import CheckedOutput
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


_NOT_YET = CallTime(done_ns=())


@dataclass(kw_only=True)
class Call:
    """One call: how it is made, of which a submission learns only the number, and what was seen of it.

    Attributes:
        number: the ranks know the call by it.
        spec: of its inputs.
        kind: what is special about it.
        key: seals its inputs.
        poison: fills its outputs before; empty where that check is off.
        is_reused: whether the inputs lie at the addresses of the call before.
        delays_us: how much later each rank starts.
        inputs, reports: of every rank.
        time: on the host's clock.
        compared: the comparison of the outputs; None where they are not compared.
        findings: what speaks against it beside wrong values.
        differs: how its outputs differ from the reference's, where they are compared by the published rule.
    """

    number: int
    spec: InputSpec
    kind: CallKind
    key: bytes
    poison: bytes
    is_reused: bool
    delays_us: tuple[int, ...]
    inputs: Sequence[PreparedInputs] = ()
    reports: Sequence[Report] = ()
    time: CallTime = _NOT_YET
    compared: Comparison | None = None
    findings: list[Finding] = field(default_factory=list)
    differs: str = ""

    @property
    def poison_number(self) -> int | None:
        """The poison as a number; None where there is none."""
        return int.from_bytes(self.poison, "little") if self.poison else None

    @property
    def checks(self) -> Sequence[CheckedOutput]:
        """The comparison of every output; none where they are not compared."""
        return self.compared.checks if self.compared is not None else ()

    @property
    def is_correct(self) -> bool:
        """Whether every compared output is correct."""
        return all(item.verdict is None for item in self.checks)

    def record(self) -> CallRecord:
        """What was sent and observed, for the record."""
        return CallRecord(
            number=self.number,
            kind=self.kind,
            draw=self.spec.index,
            near=self.spec.near,
            is_reused=self.is_reused,
            is_checked=self.compared is not None,
            delays_us=self.delays_us,
            done_ns=self.time.done_ns,
            head_ns=self.time.head_ns,
            has_queued=self.time.has_queued,
            claimed_ns=tuple(report.claimed_ns for report in self.reports),
            marks=self.time.marks,
            max_error=max((item.check.max_error for item in self.checks), default=None),
            rms_error=max((item.check.rms_error for item in self.checks), default=None),
            digests=() if self.compared is None else self.compared.digests,
            regime="" if self.spec.regime is None else self.spec.regime.name,
        )


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

    def note_payload(self, inputs: Sequence[PreparedInputs]) -> None:
        """Keep the most bytes of inputs and outputs of one rank in one call."""
        self.payload_bytes = max(self.payload_bytes, *(item.size + item.room for item in inputs))

    def add(self, checks: list[CheckedOutput]) -> None:
        """Keep the worst check per rank and output."""
        self.checked_calls += 1
        _keep_worst(self.worst, (item.check for item in checks))

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


def describe_regime(regime: Regime | None) -> str:
    """How a message names the regime of a call."""
    return "" if regime is None else f" (regime {regime.name}: {regime.words})"


def how_to_repeat(regime: Regime | None, job: Job) -> str:
    """The command that makes calls like a refused one, with other values; nothing for a call like the timed ones."""
    if regime is None:
        return ""
    where = f"{job.problem.slug} solution.py --profile {job.profile.name} --regime {regime.name}"
    return f". To repeat such calls: python -m evaluator run {where}"
