"""The real judge with all ranks on one real GPU: programs pass or fail as on several, and nothing is timed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from evaluator.contract import Backend, EvaluationReport, EvaluationRequest, Mode, SourceBundle, SourceFile, Verdict
from evaluator.host import Judge, JudgeSettings
from evaluator.host.machine import gpus
from problems import registry
from tests.evaluator.program_verdicts import BROKEN, RIGHT

SUBMISSIONS = Path(__file__).parent / "submissions"

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not (gpus.present() and shutil.which("nvidia-smi")), reason="no GPU here"),
    pytest.mark.timeout(600),
]


def request(name: str, problem: str, backend: Backend, *, mode: Mode = Mode.CHECK, ranks: int = 2) -> EvaluationRequest:
    source = SourceFile(path="solution.py", text=(SUBMISSIONS / f"{name}.py").read_text(encoding="utf-8"))
    return EvaluationRequest(
        evaluation_id=name,
        problem=problem,
        revision=registry.revision(problem),
        source=SourceBundle(files=(source,)),
        backend=backend,
        profile=f"gpu1r{ranks}",
        mode=mode,
    )


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    work_dir = tmp_path_factory.mktemp("slot")
    with Judge(JudgeSettings(profile="gpu1r2", work_dir=work_dir, call_limit_s=5.0, first_call_s=10.0)) as started:
        yield started


def seen(report: EvaluationReport) -> object:
    return report.message, report.findings, report.ranks


@pytest.mark.parametrize(("name", "problem", "backend"), RIGHT)
def test_a_kernel_for_several_gpus_passes_on_one_and_is_not_timed(
    judge: Judge, name: str, problem: str, backend: Backend
) -> None:
    report = judge.evaluate(request(name, problem, backend, mode=Mode.RANKED))
    assert report.verdict is Verdict.PASSED, seen(report)
    assert {size.size for size in report.sizes} == {"tiny", "base"}
    assert report.timing is None
    assert report.environment["gpus"]


@pytest.mark.parametrize(("name", "problem", "verdicts"), BROKEN)
def test_a_broken_kernel_gets_its_verdict_and_the_next_one_passes(
    judge: Judge, name: str, problem: str, verdicts: set[Verdict]
) -> None:
    report = judge.evaluate(request(name, problem, Backend.CUDA))
    assert report.verdict in verdicts, seen(report)
    after = judge.evaluate(request("gpu_allgather", "allgather", Backend.CUDA))
    assert after.verdict is Verdict.PASSED, seen(after)


def test_an_output_larger_than_expected_is_told_by_its_dtype(judge: Judge) -> None:
    text = (SUBMISSIONS / "correct.py").read_text(encoding="utf-8")
    text += "\n\nright = solution\n\n\ndef solution(tensor):\n    return right(tensor).to(torch.complex128)\n"
    source = SourceBundle(files=(SourceFile(path="solution.py", text="import torch\n" + text),))
    report = judge.evaluate(msgspec.structs.replace(request("correct", "allreduce", Backend.PYTORCH), source=source))
    assert report.verdict is Verdict.WRONG_SHAPE, seen(report)
    assert "complex128" in report.message


@pytest.mark.parametrize(("name", "words"), [("deadlock", "all_reduce"), ("crossed_collectives", "recv")])
def test_a_hang_is_reported_with_its_collective(judge: Judge, name: str, words: str) -> None:
    report = judge.evaluate(request(name, "allreduce", Backend.PYTORCH))
    assert report.verdict is Verdict.DEADLOCK, seen(report)
    assert words in report.message


def test_all_memory_of_the_gpu_taken_is_the_submissions_own_fault(judge: Judge) -> None:
    text = "import torch\n\nkept = []\n\n\ndef solution(tensor):\n    while True:\n"
    text += "        kept.append(torch.empty(2**28, device=tensor.device, dtype=torch.int32))\n"
    wanted = request("correct", "allreduce", Backend.PYTORCH)
    source = SourceBundle(files=(SourceFile(path="solution.py", text=text),))
    report = judge.evaluate(msgspec.structs.replace(wanted, source=source))
    assert report.verdict is Verdict.OUT_OF_MEMORY, seen(report)
    after = judge.evaluate(request("correct", "allreduce", Backend.PYTORCH))
    assert after.verdict is Verdict.PASSED, seen(after)


def test_a_call_is_recorded_and_shown_with_its_kernels(judge: Judge) -> None:
    report = judge.evaluate(request("gpu_allgather", "allgather", Backend.CUDA, mode=Mode.PROFILE))
    assert report.verdict is Verdict.PASSED, seen(report)
    assert report.timeline is not None
    assert any("gather" in work.name for work in report.timeline.submission.names)


@pytest.mark.parametrize(
    ("problem", "verdicts"),
    [
        ("opensora_conv3d_allreduce", {Verdict.PASSED}),
        ("gnn_sparse_feature_fetch_projection", {Verdict.PASSED, Verdict.UNSUPPORTED}),
    ],
)
def test_eight_ranks_never_end_as_the_judges_own_lack_of_memory(
    tmp_path: Path, problem: str, verdicts: set[Verdict]
) -> None:
    source = SourceFile(path="solution.py", text=registry.reference_source(problem))
    wanted = msgspec.structs.replace(
        request("correct", problem, Backend.PYTORCH, ranks=8), source=SourceBundle(files=(source,))
    )
    with Judge(JudgeSettings(profile="gpu1r8", work_dir=tmp_path)) as several:
        report = several.evaluate(wanted)
    assert report.verdict in verdicts, seen(report)
    assert report.verdict is Verdict.PASSED or "GB of GPU memory" in report.message


@pytest.mark.parametrize("ranks", [4, 8])
def test_more_ranks_share_the_gpu_as_well(tmp_path: Path, ranks: int) -> None:
    with Judge(JudgeSettings(profile=f"gpu1r{ranks}", work_dir=tmp_path, warm=False)) as several:
        report = several.evaluate(request("gpu_allgather", "allgather", Backend.CUDA, ranks=ranks))
    assert report.verdict is Verdict.PASSED, seen(report)
    assert report.world_size == ranks
