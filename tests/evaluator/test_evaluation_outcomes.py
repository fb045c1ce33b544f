"""What the stages of an evaluation returned, joined for the report: two worker groups, and what came before them."""

from types import SimpleNamespace
from typing import Any

from evaluator.contract import (
    BufferKind,
    Finding,
    GpuReading,
    OutputCheck,
    RecordedWork,
    SizeMemory,
    SizeResult,
    Verdict,
)
from evaluator.host.evaluation.evidence import Outcomes
from evaluator.host.evaluation.handover import IsolatedTimes
from evaluator.judging.reading import SourceReading
from tests.evaluator.timed_records import series
from tests.evaluator.timelines import call

COLLECTIVE = Finding(verdict=Verdict.FORBIDDEN, message="rank 0: 1 collective(s) moved tensors", rank=0, size="tiny")


def check(*, output: str = "out", wrong: int = 0, error: float = 0.1) -> OutputCheck:
    return OutputCheck(rank=0, output=output, elements=8, wrong_elements=wrong, max_error=error, rms_error=0.0)


def outcome(
    *checks: OutputCheck,
    size: str = "tiny",
    group_number: int = 1,
    warnings: tuple[Finding, ...] = (),
    used: int = 0,
    is_recorded: bool = False,
) -> Any:
    """What is joined of the run of a size."""
    result = SizeResult(
        size=size,
        dims={"n": 8},
        calls=10,
        checked_calls=4,
        outputs=checks,
        memory=SizeMemory(total_bytes=100, judge_bytes=10, submission_bytes=used),
    )
    return SimpleNamespace(
        size=size,
        series=SimpleNamespace(record=lambda: series(size=size, group_number=group_number)),
        at_size=SimpleNamespace(result=lambda: result, warnings=warnings),
        opened=SimpleNamespace(buffers=BufferKind.DEVICE_MEMORY),
        work=RecordedWork(size=size) if is_recorded else None,
        timeline=call([], []) if is_recorded else None,
    )


def test_two_groups_are_one_result_per_size_with_the_worst_of_each_output() -> None:
    first = outcome(check(error=0.2), check(output="scale", error=0.3), used=5)
    second = outcome(check(error=0.1), check(output="scale", wrong=1), group_number=2, used=7)
    outcomes = Outcomes(sizes=[first, outcome(check(), size="base"), second])
    tiny, base = outcomes.results
    assert (tiny.size, base.size) == ("tiny", "base")
    assert (tiny.calls, tiny.checked_calls) == (20, 8)
    assert tiny.outputs == (check(error=0.2), check(output="scale", wrong=1))
    assert tiny.memory is not None
    assert tiny.memory.submission_bytes == 7
    assert [record.group_number for record in outcomes.records] == [1, 1, 2]


def test_a_warning_counts_once_whatever_saw_it() -> None:
    by_source = Finding(verdict=Verdict.UNSUPPORTED, message="line 3")
    outcomes = Outcomes(
        reading=SourceReading(findings=(), warnings=(by_source,)),
        sizes=[outcome(warnings=(COLLECTIVE,)), outcome(size="base", warnings=(COLLECTIVE,))],
    )
    assert outcomes.warnings == (by_source, COLLECTIVE)


def test_every_record_begins_with_what_was_seen_before_the_handover() -> None:
    alone, revealing = (
        GpuReading(gpu=0, moment=moment, sm_mhz=1980, memory_mhz=3201, watts=300.0, celsius=50)
        for moment in ("alone", "revealing")
    )
    outcomes = Outcomes(
        isolated={"tiny": IsolatedTimes(times_ns=(5, 6), gpus=(alone,))},
        at_handover=(revealing,),
        sizes=[outcome(), outcome(size="base")],
    )
    tiny, base = outcomes.records
    assert (tiny.reference_alone_ns, tiny.gpus[:2]) == ((5, 6), (alone, revealing))
    assert (base.reference_alone_ns, base.gpus[:1]) == ((), (revealing,))


def test_a_timeline_has_the_size_of_the_recorded_call_and_the_reference_once_it_is_there() -> None:
    outcomes = Outcomes(sizes=[outcome(), outcome(size="base", is_recorded=True), outcome(group_number=2)])
    assert outcomes.timeline is not None
    assert (outcomes.timeline.size, outcomes.timeline.reference) == ("base", None)
    outcomes.reference = call([], [])
    assert outcomes.timeline.reference is not None
    assert outcomes.recorded_work is not None
    assert outcomes.recorded_work.size == "base"


def test_before_any_size_there_is_nothing_to_report() -> None:
    outcomes = Outcomes()
    assert (outcomes.records, outcomes.results, outcomes.warnings, outcomes.timeline) == ((), (), (), None)
    assert outcomes.primitives(is_on_gpus=True) == ()
    assert outcomes.buffers is BufferKind.HOST_MEMORY
