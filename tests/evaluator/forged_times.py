"""Whether a program gains by self-reported times: its score computed again from a record with other ones."""

from statistics import median

import msgspec

from evaluator.contract import CallRecord, EvaluationReport, Record, Timing
from evaluator.judging import timing

_SHORT = 0.1
"""What is claimed is forged where it is below this part of what the host's clock has seen."""


def are_claims_short(report: EvaluationReport) -> bool:
    """Whether the ranks report far shorter times than their calls take: otherwise a program forges nothing."""
    calls = _timed(report)
    return median(max(call.claimed_ns) for call in calls) < _SHORT * median(call.time_ns for call in calls)


def gain(report: EvaluationReport) -> str | None:
    """The gain by self-reported times, in words; None where score and interval do not depend on them."""
    assert report.record is not None
    assert report.timing is not None
    reported = _without_claims(report.timing)
    for words, found in {
        "nothing": _concluded(report.record, share=0.0),
        "what the host saw": _concluded(report.record, share=1.0),
        "ten times what the host saw": _concluded(report.record, share=10.0),
    }.items():
        if found != reported:
            return f"{reported.score} ({reported.low} to {reported.high}), but {found.score} where ranks report {words}"
    return None


def _timed(report: EvaluationReport) -> list[CallRecord]:
    assert report.record is not None
    return [call for size in report.record.sizes for block in timing.timed_blocks(size) for call in block]


def _concluded(record: Record, *, share: float) -> Timing:
    """The timing of a record in which ranks and reference report a share of the host's times."""
    sizes = [
        msgspec.structs.replace(
            size,
            calls=tuple(
                msgspec.structs.replace(call, claimed_ns=tuple(int(share * done) for done in call.done_ns))
                for call in size.calls
            ),
            reference=tuple(
                tuple(msgspec.structs.replace(call, claimed_ns=int(share * call.time_ns)) for call in block)
                for block in size.reference
            ),
        )
        for size in record.sizes
    ]
    return _without_claims(timing.conclude(sizes, record.rules)[0])


def _without_claims(found: Timing) -> Timing:
    """All but the cross-check, which shows self-reported times on purpose."""
    return msgspec.structs.replace(
        found, sizes=tuple(msgspec.structs.replace(size, claimed_us=None) for size in found.sizes)
    )
