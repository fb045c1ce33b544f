"""The real judge on real GPUs: hand-written submissions pass, broken ones get their verdicts, the node stays clean."""

import shutil
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest

from evaluator.contract import Backend, CallKind, EvaluationRequest, Mode, SourceBundle, SourceFile, Verdict
from evaluator.hardware import profiles
from evaluator.host import Judge, JudgeSettings
from evaluator.host.machine import gpus
from evaluator.judging.source_rules import check_source
from problems import registry
from tests.evaluator.cheat_corpus import programs
from tests.evaluator.forged_times import are_claims_short, gain
from tests.evaluator.program_verdicts import BROKEN, RIGHT

SUBMISSIONS = Path(__file__).parent / "submissions"


def _smi(query: str) -> list[str]:
    """One column of what nvidia-smi says of the GPUs that this process may use."""
    own = ",".join(map(str, gpus.present()))
    line = ["nvidia-smi", query, "--format=csv,noheader,nounits", f"--id={own}"]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()


GPUS = len(gpus.present()) if shutil.which("nvidia-smi") else 0
WORLD_SIZE = max((size for size in (2, 4, 8) if size <= GPUS), default=2)
PROFILE = f"h200x{WORLD_SIZE}-nomc"
GPU_CHEATS = [
    name for name, program in programs().items() if "GPUs" in program.needs and program.runs_on(profiles.get(PROFILE))
]

on_gpus = [
    pytest.mark.gpu,
    pytest.mark.multi_gpu,
    pytest.mark.skipif(GPUS < 2, reason="fewer than two GPUs here"),
    pytest.mark.timeout(600),
]


def request(name: str, problem: str, backend: Backend, mode: Mode) -> EvaluationRequest:
    source = SourceFile(path="solution.py", text=(SUBMISSIONS / f"{name}.py").read_text())
    return EvaluationRequest(
        evaluation_id=name,
        problem=problem,
        revision=registry.revision(problem),
        source=SourceBundle(files=(source,)),
        backend=backend,
        profile=PROFILE,
        mode=mode,
    )


@pytest.fixture(scope="module")
def memory_before():
    return [int(used) for used in _smi("--query-gpu=memory.used")]


@pytest.fixture(scope="module")
def judge(memory_before, tmp_path_factory):
    assert memory_before
    settings = JudgeSettings(
        profile=PROFILE, work_dir=tmp_path_factory.mktemp("slot"), call_limit_s=5.0, first_call_s=10.0
    )
    with Judge(settings) as judge:
        yield judge


@pytest.mark.parametrize(("name", "problem"), [(name, problem) for name, problem, _ in (*RIGHT, *BROKEN)])
def test_the_written_rules_let_these_submissions_in(name, problem):
    backend = Backend.TRITON if "triton" in name else Backend.CUDA
    bundle = request(name, problem, backend, Mode.RANKED).source
    assert not check_source(
        registry.get(problem), bundle, backend=backend, profile=profiles.get(PROFILE), mode=Mode.RANKED
    )


class TestOnGpus:
    pytestmark = on_gpus

    @pytest.mark.parametrize(("name", "problem", "backend"), RIGHT)
    def test_a_hand_written_submission_passes_with_a_score(self, judge, name, problem, backend):
        report = judge.evaluate(request(name, problem, backend, Mode.BENCHMARK))
        assert report.verdict is Verdict.PASSED, (report.message, report.findings, report.ranks)
        assert report.timing.low <= report.timing.score <= report.timing.high
        for size in report.record.sizes:
            before = {later.number: call for call, later in pairwise(size.calls)}
            settled = [before[number] for block in size.blocks for number in block]
            assert all(call.kind is CallKind.PLAIN and not call.is_checked for call in settled)
        if backend is Backend.CUDA:
            assert report.build.succeeded
            assert report.build.artefacts
        if backend is Backend.TRITON:
            assert any("/__triton_launcher" in name for name in report.build.artefacts)

    @pytest.mark.parametrize("name", ["gpu_scatter_kept_buffer", "gpu_scatter_new_buffers"])
    def test_buffers_that_ranks_share_are_ready_before_a_peer_uses_them(self, judge, name):
        """Only the source copies before the first barrier: its peer's signal must not come before the pad is clear."""
        report = judge.evaluate(request(name, "scatter", Backend.PYTORCH, Mode.RANKED))
        assert report.verdict is Verdict.PASSED, (report.message, report.findings, report.ranks)
        assert {record.group_number for record in report.record.sizes} == {1, 2}

    def test_counts_in_pinned_memory_may_still_be_on_their_way(self, judge):
        report = judge.evaluate(
            request("gpu_counts_still_on_their_way", "moe_token_preprocess", Backend.PYTORCH, Mode.CHECK)
        )
        assert report.verdict is Verdict.PASSED, (report.message, report.findings, report.ranks)

    @pytest.mark.parametrize(("name", "problem", "verdicts"), BROKEN)
    def test_a_broken_submission_gets_its_verdict_and_the_next_one_passes(self, judge, name, problem, verdicts):
        report = judge.evaluate(request(name, problem, Backend.CUDA, Mode.CHECK))
        assert report.verdict in verdicts, (report.message, report.findings, report.ranks)
        after = judge.evaluate(request("gpu_allgather", "allgather", Backend.CUDA, Mode.CHECK))
        assert after.verdict is Verdict.PASSED, (after.message, after.findings)

    @pytest.mark.parametrize(
        ("name", "words"),
        [("deadlock", "collective 1 of the call, all_reduce of"), ("crossed_collectives", "recv 0<-1 of")],
    )
    @pytest.mark.skipif(WORLD_SIZE != 2, reason="written for two ranks")
    def test_a_hang_on_gpus_is_reported_as_a_deadlock_with_the_collective(self, judge, name, words):
        report = judge.evaluate(request(name, "allreduce", Backend.PYTORCH, Mode.CHECK))
        assert report.verdict is Verdict.DEADLOCK, report.message
        assert words in report.message
        assert all("libcuda" in (rank.stack or "") for rank in report.ranks[:1])

    @pytest.mark.parametrize("slug", ["distributed_sample_sort", "sam3_allgather_iou_suppression"])
    def test_inputs_of_varying_length_stay_correct_in_every_call(self, judge, slug):
        source = SourceFile(path="solution.py", text=registry.reference_source(slug))
        report = judge.evaluate(
            EvaluationRequest(
                evaluation_id=slug,
                problem=slug,
                revision=registry.revision(slug),
                source=SourceBundle(files=(source,)),
                backend=Backend.PYTORCH,
                profile=PROFILE,
                mode=Mode.BENCHMARK,
                sizes=("base",),
            )
        )
        assert report.verdict is Verdict.PASSED, (report.message, report.findings, report.ranks)
        record = report.record.sizes[0]
        assert sum(call.is_checked for call in record.calls) > len(record.blocks) > 0

    @pytest.mark.parametrize("name", GPU_CHEATS)
    def test_a_cheat_that_needs_a_gpu_is_caught_and_its_twin_passes(self, judge, name):
        program = programs()[name]
        report = judge.evaluate(program.request(profile=PROFILE))
        assert report.verdict in program.accepted, (report.message, report.findings, report.ranks)
        if program.forges_time:
            assert are_claims_short(report)
            assert gain(report) is None
            assert report.timing.score < 0.5, "it sleeps in every call"

    def test_the_node_is_clean_once_the_judge_has_closed(self, judge, memory_before):
        judge.close()
        deadline = time.monotonic() + 30
        while not (clean := _is_clean(memory_before)) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert clean, (_smi("--query-compute-apps=pid"), _smi("--query-gpu=memory.used"))


def _is_clean(memory_before: list[int]) -> bool:
    now = [int(used) for used in _smi("--query-gpu=memory.used")]
    back = all(used <= before + 64 for before, used in zip(memory_before, now, strict=True))
    return back and not [pid for pid in _smi("--query-compute-apps=pid") if pid.isdigit()]
