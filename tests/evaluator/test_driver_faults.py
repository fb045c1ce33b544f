"""Faults that a GPU's driver reports: counted, described, and a reason to stop the slot where they are grave."""

import shutil
import subprocess
from pathlib import Path

import pytest

from evaluator.contract import Backend, DriverFault, EvaluationReport, EvaluationRequest, Mode, SourceBundle, SourceFile
from evaluator.host import Judge, JudgeSettings
from evaluator.host.machine.health import Health, Watch
from evaluator.judging import driver_faults
from problems import registry

HERE = Path(__file__).parent


def _gpus() -> list[int]:
    """The GPUs that a driver shows; none where it is installed and shows none."""
    if shutil.which("nvidia-smi") is None:
        return []
    line = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return [] if done.returncode else [int(word) for word in done.stdout.split()]


GPUS = _gpus()


def fault(xid: int, *, gpu: int = 0, count: int = 1) -> DriverFault:
    return DriverFault(gpu=gpu, xid=xid, count=count, noticed_at="2026-11-21T12:00:00.000+00:00")


def test_equal_faults_count_up_and_keep_the_moment_of_the_first():
    watch = Watch()
    for gpu, xid, second in ((1, 31, 1), (0, 13, 2), (1, 31, 3), (0, 31, 4)):
        watch.note(gpu, xid, noticed_at=f"12:00:0{second}")
    assert watch.seen == (
        DriverFault(gpu=1, xid=31, count=2, noticed_at="12:00:01"),
        DriverFault(gpu=0, xid=13, count=1, noticed_at="12:00:02"),
        DriverFault(gpu=0, xid=31, count=1, noticed_at="12:00:04"),
    )


@pytest.mark.skipif(bool(GPUS), reason="this machine has GPUs")
@pytest.mark.parametrize("gpus", [(), (0, 1)])
def test_a_machine_without_fault_reports_says_so_instead_of_no_faults(gpus):
    with Watch(gpus) as watch:
        assert watch.faults is None
    assert watch.faults is None


@pytest.mark.parametrize("xid", [48, 63, 79, 94, 95, 119, 140])
def test_a_grave_fault_speaks_against_the_slot(xid):
    (reason,) = driver_faults.against_the_slot([fault(31), fault(xid, gpu=3)])
    assert reason.startswith(f"the driver reported on GPU 3: Xid {xid} (")


def test_a_grave_fault_is_left_over_until_the_node_is_restarted(tmp_path):
    health = Health(user=None, gpus=(), work_dir=tmp_path, ours=list, kept=set, seconds=0.0)
    with health.watching() as watch:
        watch.note(1, 31, noticed_at="")
        assert health.leftovers() == ()
        watch.note(1, 79, noticed_at="")
    reason = ("the driver reported on GPU 1: Xid 79 (the GPU has fallen off the bus)",)
    assert health.leftovers() == reason, "reported though it came after the slot was checked"
    with health.watching():
        assert health.leftovers() == reason


def test_what_wrong_programs_cause_does_not_end_a_slots_work():
    assert driver_faults.against_the_slot([fault(13), fault(31, count=9), fault(43), fault(45), fault(9999)]) == ()


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (fault(31, gpu=2), "GPU 2: Xid 31 (a memory access outside mapped memory)"),
        (fault(74, count=3), "GPU 0: Xid 74 (an error of NVLink), 3 times"),
        (fault(9999), "GPU 0: Xid 9999"),
    ],
)
def test_a_fault_in_words(one, expected):
    assert driver_faults.sentence(one) == expected


def test_a_report_from_before_there_were_such_fields_still_reads():
    fields = (
        '"evaluation_id":"e","problem":"allreduce","revision":"r","source_digest":"d","backend":"pytorch",'
        '"profile":"cpux2","world_size":2,"mode":"check","dtype":"bfloat16","verdict":"PASSED","message":"right"'
    )
    report = EvaluationReport.from_json("{" + fields + "}")
    assert (report.driver_faults, report.earlier) == (None, ())
    faulty = EvaluationReport.from_json("{" + fields + ',"driver_faults":[{"gpu":0,"xid":31}]}')
    assert faulty.driver_faults == (DriverFault(gpu=0, xid=31),)
    assert EvaluationReport.from_json(faulty.to_json()) == faulty


@pytest.mark.gpu
@pytest.mark.multi_gpu
@pytest.mark.skipif(len(GPUS) < 2, reason="fewer than two GPUs here")
@pytest.mark.timeout(300)
def test_a_kernel_that_writes_astray_is_a_fault_that_the_driver_reports(tmp_path):
    text = (HERE / "submissions" / "gpu_allgather_illegal.py").read_text()
    source = SourceBundle(files=(SourceFile(path="solution.py", text=text),))
    request = EvaluationRequest(
        evaluation_id="astray", problem="allgather", revision=registry.revision("allgather"), source=source,
        backend=Backend.CUDA, profile="h200x2-nomc", mode=Mode.CHECK,
    )  # fmt: skip
    settings = JudgeSettings(profile="h200x2-nomc", work_dir=tmp_path)
    with Judge(settings) as judge:
        report = judge.evaluate(request)
    assert {seen.xid for seen in report.driver_faults or ()} & {13, 31}
    assert not driver_faults.against_the_slot(report.driver_faults or ())
