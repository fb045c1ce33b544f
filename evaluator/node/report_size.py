"""How large a delivery may be, and what its report leaves out to be small enough."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from evaluator.contract import MOST_COMPRESSED_BYTES, MOST_REPORT_BYTES, Delivery, EvaluationReport
from evaluator.node.site import packed

_RANK_CHARACTERS = 8 * 1024
_LOG_CHARACTERS = 64 * 1024
_FINDINGS, _MESSAGE_CHARACTERS = 8, 1000


def fitted(delivery: Delivery, *, most_bytes: int = MOST_REPORT_BYTES) -> Delivery:
    """`delivery` as it is, or with parts of its report left out until it has at most `most_bytes`.

    The verdict, its message and the score stay. The report's notes name what was left out.
    """
    if len(delivery.error_log) > _LOG_CHARACTERS:
        delivery = replace(delivery, error_log=delivery.error_log[:_LOG_CHARACTERS])
    for words, cut in _CUTS:
        if _fits(delivery, most_bytes):
            break
        report = cut(delivery.report)
        note = f"the report was too large: it lacks {words}"
        delivery = replace(delivery, report=replace(report, notes=(*report.notes, note)))
    return delivery


def _fits(delivery: Delivery, most_bytes: int) -> bool:
    content = delivery.to_json().encode()
    return len(content) <= min(most_bytes, MOST_COMPRESSED_BYTES) or (
        len(content) <= most_bytes and len(packed(content)) <= MOST_COMPRESSED_BYTES
    )


def _short_ranks(report: EvaluationReport) -> EvaluationReport:
    ranks = tuple(
        replace(
            rank,
            log=rank.log[-_RANK_CHARACTERS:],
            stack=rank.stack[:_RANK_CHARACTERS] if rank.stack is not None else None,
            error=rank.error[:_RANK_CHARACTERS] if rank.error is not None else None,
        )
        for rank in report.ranks
    )
    return replace(report, ranks=ranks)


def _short_log(report: EvaluationReport) -> EvaluationReport:
    if report.build is None:
        return report
    return replace(report, build=replace(report.build, log=report.build.log[:_LOG_CHARACTERS], artefacts={}))


def _short_findings(report: EvaluationReport) -> EvaluationReport:
    findings = tuple(
        replace(finding, message=finding.message[:_MESSAGE_CHARACTERS], error_map=None)
        for finding in report.findings[:_FINDINGS]
    )
    return replace(
        report,
        findings=findings,
        warnings=(),
        primitives=(),
        message=report.message[:_MESSAGE_CHARACTERS],
        alarms=tuple(alarm[:_MESSAGE_CHARACTERS] for alarm in report.alarms[:_FINDINGS]),
    )


_CUTS: tuple[tuple[str, Callable[[EvaluationReport], EvaluationReport]], ...] = (
    ("the machine code of kernels", partial(replace, machine_code=None)),
    ("the timeline of the recorded call", partial(replace, timeline=None)),
    ("most of what ranks printed", _short_ranks),
    ("most of the build's log", _short_log),
    ("further findings", _short_findings),
    ("the record of calls", partial(replace, record=None, recorded_work=None)),
    (
        "everything but the verdict",
        partial(replace, ranks=(), build=None, sizes=(), canaries=(), driver_faults=None, earlier=(), environment={}),
    ),
)
"""What is left out first, second and so on."""
