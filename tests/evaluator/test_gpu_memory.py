"""Who holds how much of a GPU's memory, from what the driver and the trusted ranks say."""

from evaluator.contract import Finding, SizeMemory, Verdict
from evaluator.host.evaluation.failures import without_memory
from evaluator.host.machine.nvml import GpuState
from evaluator.host.measure.gpu_memory import _of_gpu, describe, most
from evaluator.host.ranks.trusted_ranks import HeldMemory

GB = 10**9


def state(used_gb: int) -> GpuState:
    return GpuState(index=0, busy_percent=0, total_bytes=141 * GB, used_bytes=used_gb * GB, processes={})


def held(gb: int, *, peak_gb: int) -> HeldMemory:
    return HeldMemory(bytes=gb * GB, peak_bytes=peak_gb * GB)


def test_what_neither_the_judge_nor_its_contexts_hold_is_the_submissions() -> None:
    """5 GB of 7 are contexts; later the trusted ranks hold 10 of 45, and held 12 at most."""
    found = _of_gpu(state(7), held(2, peak_gb=2), state(45), held(10, peak_gb=12))
    assert found == SizeMemory(total_bytes=141 * GB, judge_bytes=17 * GB, submission_bytes=30 * GB)


def test_memory_that_the_driver_gives_back_late_makes_no_submission_negative() -> None:
    assert _of_gpu(state(7), held(2, peak_gb=2), state(8), held(4, peak_gb=4)).submission_bytes == 0


def test_the_most_of_either_counts() -> None:
    first = SizeMemory(total_bytes=141 * GB, judge_bytes=3 * GB, submission_bytes=9 * GB)
    second = SizeMemory(total_bytes=141 * GB, judge_bytes=5 * GB, submission_bytes=1 * GB)
    assert most(first, second) == SizeMemory(total_bytes=141 * GB, judge_bytes=5 * GB, submission_bytes=9 * GB)
    assert most(None, second) == second
    assert most(first, None) == first
    assert most(None, None) is None


def test_an_author_reads_both_figures() -> None:
    text = describe(SizeMemory(total_bytes=141 * GB, judge_bytes=5 * GB, submission_bytes=99 * GB))
    assert text == "the submission used 99.0 GB of a GPU's 141.0 GB, the judge 5.0 GB at most"


def test_an_author_is_not_blamed_where_the_judge_left_less_than_half() -> None:
    asked = Finding(verdict=Verdict.OUT_OF_MEMORY, message="rank 0: tried to allocate 32 GB", size="large")
    ours = without_memory(asked, SizeMemory(total_bytes=150 * GB, judge_bytes=121 * GB, submission_bytes=2 * GB))
    assert (ours.verdict, ours.size) == (Verdict.UNSUPPORTED, "large")
    assert "the submission used 2.0 GB of a GPU's 150.0 GB, the judge 121.0 GB at most: rank 0: tried" in ours.message
    theirs = without_memory(asked, SizeMemory(total_bytes=150 * GB, judge_bytes=70 * GB, submission_bytes=78 * GB))
    assert theirs.verdict is Verdict.OUT_OF_MEMORY
    assert "the judge 70.0 GB" in theirs.message
