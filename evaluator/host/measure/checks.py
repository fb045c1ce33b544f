"""Findings on one call: what ranks, host and oracle say against it."""

from collections.abc import Sequence

from evaluator.contract import CallKind, Finding, Mode, RecordedWork, Verdict
from evaluator.host.job import Job
from evaluator.host.measure.evidence import Call, SizeEvidence, describe_regime, how_to_repeat, warn_once
from evaluator.host.ranks.oracle_group import Traces
from evaluator.judging import recorded_work
from evaluator.judging.checks import Check
from evaluator.oracle.messages import CheckedOutput

VALUE_VERDICTS = frozenset({Verdict.WRONG_RESULT, Verdict.NOT_FINITE})
"""The verdicts on an output's values."""

_KINDS = {
    CallKind.SKEWED: " (some ranks were late, and each went on with another call at once)",
    CallKind.NEAR: " (only a few elements were new)",
    CallKind.RECORDED: " (the profiler recorded it)",
}


def claimed(job: Job, call: Call, at_size: SizeEvidence) -> list[Finding]:
    """Findings from what ranks report about themselves: a changed input, a library collective."""
    found = []
    for rank, (report, prepared) in enumerate(zip(call.reports, call.inputs, strict=True)):
        if job.does(Check.INPUTS) and 0 <= report.detail < len(prepared.tensors):
            found.append(_mutated(rank, prepared.tensors[report.detail], at_size.size))
        if report.moved and job.counts_collectives:
            message = (
                f"rank {rank}: {report.moved} collective(s) of torch.distributed moved tensors inside solution. Only "
                "backend pytorch may use them for the problem's data"
            )
            against = Finding(verdict=Verdict.FORBIDDEN, message=message, rank=rank, size=at_size.size)
            found += _counted_when_ranked(job, against, at_size)
    return found


def changed(job: Job, names: Sequence[str | None], size: str) -> list[Finding]:
    """Findings from the oracle's comparison of inputs in device memory: by rank, the name of a changed one."""
    if not job.does(Check.INPUTS):
        return []
    return [_mutated(rank, name, size) for rank, name in enumerate(names) if name is not None]


def _mutated(rank: int, name: str, size: str) -> Finding:
    message = f"rank {rank}: the call changed input {name!r}, which the problem does not allow"
    return Finding(verdict=Verdict.INPUT_MUTATED, message=message, rank=rank, size=size)


def hidden(job: Job, work: RecordedWork, at_size: SizeEvidence) -> list[Finding]:
    """Findings from the recorded call: library collectives that torch.distributed did not start."""
    found = recorded_work.hidden_collectives(work.works, backend=job.request.backend)
    return [] if found is None or not job.counts_collectives else _counted_when_ranked(job, found, at_size)


def _counted_when_ranked(job: Job, finding: Finding, at_size: SizeEvidence) -> list[Finding]:
    if job.mode is Mode.RANKED:
        return [finding]
    warn_once(at_size.warnings, finding)
    return []


def altered(call: Call, traces: Traces, size: str) -> list[Finding]:
    """Findings where the outputs taken differ from those at the end of the call."""
    sealed = [
        Finding(
            verdict=Verdict.TAMPERED,
            message=f"rank {rank}, call {call.number}: inputs were still sealed in their memory at the end of the "
            "call, so something other than the judge's shim read them",
            rank=rank,
            size=size,
        )
        for rank, is_sealed in enumerate(traces.are_sealed)
        if is_sealed
    ]
    return sealed + [
        Finding(
            verdict=Verdict.INCOMPLETE_OUTPUT,
            message=f"rank {rank}, call {call.number}: the output changed after the end of the call, before the judge "
            "took it",
            rank=rank,
            size=size,
        )
        for rank, (reported, seen, is_late) in enumerate(
            zip(call.time.marks, traces.marks, traces.are_late, strict=True)
        )
        if is_late or (seen is not None and seen != reported)
    ]


def wrong_values(call: Call, size: str, job: Job) -> list[Finding]:
    """Findings from the comparison of a call's outputs; stale outputs are named so."""
    regime = call.spec.regime
    again = how_to_repeat(regime, job)
    found = []
    for item in call.checks:
        if item.verdict is None:
            continue
        where = f"rank {item.rank}, call {call.number}{special(call)}: "
        if item.stale is not None:
            message = f"{where}output {item.output!r} is the correct output of an earlier call, not of this one"
            found.append(_of_output(item, Verdict.STALE_OUTPUT, message, size))
        found.append(_of_output(item, item.verdict, where + item.message + again, size))
    return found


def special(call: Call) -> str:
    """How a call differs from plain ones, in words; "" for these."""
    return _KINDS.get(call.kind, "") if call.spec.regime is None else describe_regime(call.spec.regime)


def _of_output(item: CheckedOutput, verdict: Verdict, message: str, size: str) -> Finding:
    drawn = item.error_map if verdict is item.verdict else None
    return Finding(verdict=verdict, message=message, rank=item.rank, size=size, output=item.output, error_map=drawn)
