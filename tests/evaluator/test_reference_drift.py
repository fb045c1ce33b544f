"""The reference before a submission was handed over, and beside it; what the slot showed meanwhile."""

import msgspec
import pytest

from evaluator.contract import CallKind, CallRecord, GpuReading, Mode, ReferenceCall, SizeRecord, Verdict
from evaluator.hardware import profiles
from evaluator.host import Judge
from evaluator.judging.reference_drift import alarms
from tests.evaluator.judging_help import request_for

GPU, CPU = (profiles.get(name).timing_rules() for name in ("h200x2-nomc", "cpux2"))


def record(*, alone_us: list[int], later_us: list[int], queues: bool = True) -> SizeRecord:
    later = tuple(ReferenceCall(time_ns=us * 1000, claimed_ns=0) for us in later_us)
    return SizeRecord(
        size="base",
        payload_bytes=1,
        floor_us=None,
        calls=(),
        reference=(later,),
        reference_alone_ns=tuple(us * 1000 for us in alone_us),
        reference_queues=queues,
    )


STEADY = [400, 402, 398, 401, 400, 405, 399, 400]


@pytest.mark.parametrize(
    ("alone", "later", "is_alarm"),
    [
        (STEADY, STEADY, False),
        (STEADY, [520, 530, 510, 515, 540, 522], True),
        (STEADY, [440, 441, 442, 439], False),  # a tenth is what hosts vary by
        (STEADY, [400, 400, 900, 900, 900, 400], False),  # the middle halves are not apart
        ([20] * 8, [30] * 8, False),  # below the resolution
        ([], STEADY, False),
        (STEADY, [900, 900], False),
    ],
)
def test_later_legs_that_are_slower_are_an_alarm(alone: list[int], later: list[int], is_alarm: bool) -> None:  # noqa: FBT001
    assert bool(alarms([record(alone_us=alone, later_us=later)], GPU)) is is_alarm


def test_a_reference_that_waits_for_its_device_may_differ_as_much_as_its_own_times_do() -> None:
    # An honest program, 2 H200, 23 November 2026: the host was slower in the second worker group.
    alone, later = [2187, 586, 522, 503, 502, 552, 519, 509], [731, 739, 657, 577, 769, 664, 606, 623]
    assert not alarms([record(alone_us=alone, later_us=later, queues=False)], GPU)
    assert alarms([record(alone_us=alone, later_us=later)], GPU)
    assert alarms([record(alone_us=alone, later_us=[us + 100 for us in later], queues=False)], GPU)


def test_the_alarm_says_how_much() -> None:
    (sentence,) = alarms([record(alone_us=[400] * 8, later_us=[600] * 8)], GPU)
    assert "600 us" in sentence
    assert "1.50 times the 400 us" in sentence


def reading(moment: str, *, gpu: int = 0, **changes: object) -> GpuReading:
    quiet = GpuReading(
        gpu=gpu,
        moment=moment,
        sm_mhz=1980,
        memory_mhz=3201,
        watts=300.0,
        celsius=41,
        used_bytes=20 * 10**9,
        processes=6,
        memory_percent=5,
        sent_bytes=500_000_000,
        received_bytes=500_000_000,
        pcie_sent_bytes=2_000_000,
        pcie_received_bytes=2_000_000,
        dram_percent=12,
    )
    return msgspec.structs.replace(quiet, **changes)


def alarm_with(*readings: GpuReading, **changes: object) -> str:
    slow = record(alone_us=[400] * 8, later_us=[600] * 8)
    (sentence,) = alarms([msgspec.structs.replace(slow, gpus=readings, **changes)], GPU)
    return sentence


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sent_bytes": 3_100_000_000}, "GPU 0 sent 3,100.0 MB a call over its links, 500.0 MB alone"),
        ({"received_bytes": 3_100_000_000}, "GPU 0 received 3,100.0 MB a call over its links, 500.0 MB alone"),
        ({"pcie_sent_bytes": 90_000_000}, "GPU 0 sent 90.0 MB a call over PCIe, 2.0 MB alone"),
        ({"pcie_received_bytes": 90_000_000}, "GPU 0 received 90.0 MB a call over PCIe, 2.0 MB alone"),
        ({"dram_percent": 85}, "GPU 0 used 85 % of its memory's bandwidth, 12 % alone"),
        ({"sm_mhz": 1200}, "GPU 0's SM clock was 1200 MHz, 1980 MHz alone"),
        ({"memory_mhz": 1600}, "GPU 0's memory clock was 1600 MHz, 3201 MHz alone"),
        ({"throttled_by": ("gpu_idle", "hw_slowdown")}, "GPU 0 was slowed (hw_slowdown)"),
        ({"memory_percent": 80}, "GPU 0's memory was in use 80 % of the time, 5 % alone"),
        ({"processes": 7}, "7 processes used GPU 0, 6 alone"),
        ({"used_bytes": 50 * 10**9}, "GPU 0 held 30.0 GB more than before"),
    ],
)
def test_the_alarm_names_what_differed_in_the_slot(changes: dict[str, object], words: str) -> None:
    phases = [reading(f"block {number}", **changes) for number in (1, 1, 3)]
    others = [reading("alone", gpu=1), reading("block 1", gpu=1)]
    sentence = alarm_with(reading("alone"), *phases, *others)
    assert sentence.endswith(f"Seen in its phases: {words}")


def test_the_alarm_says_so_where_nothing_differed() -> None:
    quiet = alarm_with(reading("alone"), reading("block 1", sent_bytes=501_000_000, sm_mhz=1965, used_bytes=None))
    assert quiet.endswith("nothing else that differs, so the host may have been busy")
    # A single phase is no pattern: the median of the phases counts.
    once = alarm_with(
        reading("alone"), reading("block 1", processes=9), *[reading(f"block {number}") for number in (3, 5)]
    )
    assert "processes" not in once


CALL = CallRecord(
    number=1, kind=CallKind.PLAIN, draw=1, near=None, is_reused=False, is_checked=True, delays_us=(0, 0),
    done_ns=(1, 1), head_ns=0, has_queued=True, claimed_ns=(1, 1), marks=("", ""), max_error=None,
)  # fmt: skip


def test_the_alarm_names_processors_that_the_submission_kept_busy_beyond_its_polling_ranks() -> None:
    words = "the submission's processes used 3.00 processors"
    assert words in alarm_with(calls=(CALL,), watched_ns=10**9, busy_ns=3 * 10**9)
    assert "processors" not in alarm_with(calls=(CALL,), watched_ns=10**9, busy_ns=2 * 10**9)
    slow = record(alone_us=[400] * 8, later_us=[600] * 8)
    (sentence,) = alarms([msgspec.structs.replace(slow, watched_ns=10**9, busy_ns=10**8)], CPU)
    assert "the submission's processes used 0.10 processors" in sentence


def test_a_ranked_judgement_times_the_reference_before_it_hands_over_the_submission(judge: Judge) -> None:
    stages: list[str] = []
    report = judge.evaluate(
        msgspec.structs.replace(request_for("correct"), mode=Mode.RANKED),
        progress=lambda _stage, detail, _fraction: stages.append(detail),
    )
    assert report.verdict is Verdict.PASSED, report.message
    assert stages.index("tiny: the reference alone") < stages.index("importing solution.py")
    assert report.record is not None
    assert all(len(size.reference_alone_ns) >= 4 for size in report.record.sizes)
