"""The report of one evaluation, from what its stages returned."""

import logging
from collections.abc import Iterator

import msgspec

from evaluator.contract import (
    MOST_ERROR_MAPS,
    MOST_MAPS_OF_A_RANK,
    Canary,
    DriverFault,
    EvaluationReport,
    MachineCode,
    Record,
    SizeRecord,
    Verdict,
    request_fields,
)
from evaluator.host.evaluation.evidence import Findings, Outcomes
from evaluator.host.job import Job
from evaluator.host.machine import facts, gpus
from evaluator.judging import recorded_work, reference_drift, throttling

logger = logging.getLogger(__name__)

_MAPPED = (Verdict.WRONG_RESULT, Verdict.NOT_FINITE)
_MOST = 500
"""Warnings, primitives and alarms; the contract takes little more."""


def written(
    job: Job,
    outcomes: Outcomes,
    findings: Findings,
    *,
    commitment: str,
    canaries: tuple[Canary, ...],
    driver_faults: tuple[DriverFault, ...] | None,
    started_at: str,
    finished_at: str,
) -> EvaluationReport:
    """The report. A pass needs its finding; without any finding the verdict is JUDGE_ERROR."""
    profile, decided = job.profile, findings.decided
    records = outcomes.records if profile.measures_time else untimed(outcomes.records)
    return EvaluationReport(
        **request_fields(job.request, world_size=profile.world_size, dtype=job.dtype),
        verdict=decided.verdict,
        message=decided.message,
        findings=findings.all,
        stages=job.stages,
        sizes=outcomes.results,
        timing=outcomes.timing if decided.verdict is Verdict.PASSED else None,
        record=Record(rules=profile.timing_rules(), sizes=records) if records else None,
        warnings=outcomes.warnings[:_MOST],
        ranks=outcomes.ranks,
        build=outcomes.built.result if outcomes.built is not None else None,
        primitives=outcomes.primitives(is_on_gpus=profile.is_on_gpus)[:_MOST],
        recorded_work=outcomes.recorded_work,
        timeline=outcomes.timeline,
        machine_code=_machine_code(outcomes),
        alarms=_alarms(job, outcomes)[:_MOST],
        notes=tuple(_notes(outcomes, findings)),
        canaries=canaries,
        driver_faults=driver_faults,
        sandbox=job.resources.confinement.level,
        buffers=outcomes.buffers,
        commitment=commitment,
        ranks_wait_s=outcomes.ranks_wait_s,
        environment=_environment(job),
        started_at=started_at,
        finished_at=finished_at,
        points=tuple(outcomes.points),
        published=outcomes.published if decided.verdict is Verdict.PASSED else None,
        is_untimed=not profile.measures_time,
    )


def untimed(records: tuple[SizeRecord, ...]) -> tuple[SizeRecord, ...]:
    """The same calls without any time: those of ranks that share a GPU say nothing."""
    return tuple(
        msgspec.structs.replace(
            record,
            calls=tuple(
                msgspec.structs.replace(call, done_ns=(0,) * len(call.done_ns), head_ns=0, claimed_ns=())
                for call in record.calls
            ),
        )
        for record in records
    )


def _machine_code(outcomes: Outcomes) -> MachineCode | None:
    """The kernels of the build with source lines, those of the recorded call first."""
    code = outcomes.built.code if outcomes.built is not None else None
    if code is None:
        return None
    timeline = outcomes.timeline
    recorded = timeline.submission.names if timeline is not None else ()
    return recorded_work.reported(code, frozenset(name.name for name in recorded))


def _alarms(job: Job, outcomes: Outcomes) -> tuple[str, ...]:
    records, rules = outcomes.records, job.profile.timing_rules()
    found = reference_drift.alarms(records, rules) + throttling.alarms(records, rules)
    for sentence in found:
        logger.warning("evaluation %s: %s", job.request.evaluation_id, sentence)
    return found


def _notes(outcomes: Outcomes, findings: Findings) -> Iterator[str]:
    """What the report lacks, for the author."""
    for rank in outcomes.ranks:
        if rank.log_lacks:
            yield f"rank {rank.rank} printed more than is kept: {rank.log_lacks:,} bytes in the middle were left out"
    if outcomes.built is not None:
        yield from outcomes.built.notes
    drawn = [each.error_map is not None for each in findings.all if each.verdict in _MAPPED]
    if sum(drawn) >= MOST_MAPS_OF_A_RANK and not all(drawn):
        most = f"at most {MOST_ERROR_MAPS} get one, {MOST_MAPS_OF_A_RANK} of a rank in a call"
        yield f"{drawn.count(False)} wrong outputs lack a map: {most}"
    if findings.left_out:
        yield f"there were {findings.left_out:,} further findings"


def _environment(job: Job) -> dict[str, str]:
    missing = "; ".join(item.name for item in job.resources.confinement.missing)
    shared = {"gpu.shared": gpus.shared_model(job.profile)} if job.profile.shares_gpu else {}
    return {
        **facts.environment(),
        **shared,
        "judge": facts.judge_digest(),
        "sandbox.missing": missing,
        "attempt": str(job.request.attempt),
        **job.settings.as_record(),
    }
