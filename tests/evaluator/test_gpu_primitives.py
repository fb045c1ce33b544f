"""One submission per primitive by the real judge on real GPUs: its verdict, and what finds its primitive."""

import msgspec
import pytest

from evaluator.contract import Backend, EvidenceSource, Mode, Primitive, SourceBundle, SourceFile, Verdict, WorkKind
from evaluator.host import Judge, JudgeSettings
from evaluator.host.machine.backends import Node, missing
from evaluator.judging import link_traffic, primitives
from tests.evaluator.test_gpu import PROFILE, WORLD_SIZE, on_gpus, request

SHOWN = [
    ("primitive_copy_engine", Backend.CUDA, Primitive.COPY_ENGINE, {EvidenceSource.SOURCE, EvidenceSource.PROFILER}),
    ("gpu_allgather", Backend.CUDA, Primitive.SM_LOAD_STORE, {EvidenceSource.SOURCE, EvidenceSource.COMPILED}),
    ("gpu_allgather_triton", Backend.TRITON, Primitive.SM_LOAD_STORE, {EvidenceSource.SOURCE, EvidenceSource.COMPILED}),
    ("primitive_tma", Backend.CUDA, Primitive.TMA, {EvidenceSource.SOURCE, EvidenceSource.COMPILED}),
    ("primitive_nvshmem", Backend.NVSHMEM, Primitive.NVSHMEM, set(EvidenceSource)),
    ("primitive_nccl", Backend.PYTORCH, Primitive.NCCL, {EvidenceSource.SOURCE, EvidenceSource.PROFILER}),
]

pytestmark = on_gpus


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    settings = JudgeSettings(profile=PROFILE, work_dir=tmp_path_factory.mktemp("slot"), call_limit_s=5.0)
    with Judge(settings) as judge:
        yield judge


@pytest.fixture(scope="module")
def reports(judge):
    """Every submission judged once, when it is first asked for."""
    found = {}

    def report_of(name, backend, mode=Mode.CHECK):
        key = (name, mode)
        if key not in found:
            found[key] = judge.evaluate(request(name, "allgather", backend, mode))
        return found[key]

    return report_of


@pytest.mark.parametrize(("name", "backend", "primitive", "witnesses"), SHOWN)
def test_a_submission_passes_and_exactly_its_primitive_is_found(reports, name, backend, primitive, witnesses):
    report = reports(name, backend)
    assert report.verdict is Verdict.PASSED, (report.message, report.findings, report.ranks)
    assert primitives.names(report.primitives) == (primitive,), report.primitives
    assert {seen.evidence for seen in report.primitives} == witnesses, report.primitives


def test_loads_through_nccls_device_api_are_both(reports):
    """LSA is NCCL's name for peers that can be reached by loads and stores, and its barrier is inlined."""
    report = reports("primitive_nccl_device", Backend.NCCL_DEVICE)
    assert report.verdict is Verdict.PASSED, (report.message, report.findings, report.ranks)
    assert set(primitives.names(report.primitives)) == {Primitive.SM_LOAD_STORE, Primitive.NCCL_DEVICE}
    assert {"the symbol ncclDevCommCreate", "nccl_device.h"} <= {seen.detail for seen in report.primitives}


def test_multicast_is_refused_before_a_gpu_is_touched(reports):
    report = reports("primitive_multimem", Backend.CUDA)
    assert report.verdict is Verdict.UNSUPPORTED
    assert not report.ranks
    assert primitives.names(report.primitives) == (Primitive.NVLS,)


def test_what_a_backend_lacks_on_this_node_is_named(judge):
    text = "A = 'ncclGin'\n\n\ndef solution(tensor):\n    return tensor\n"
    bundle = SourceBundle(files=(SourceFile(path="solution.py", text=text),))
    if not missing(bundle, backend=Backend.NCCL_DEVICE, node=Node.this()):
        pytest.skip("this node has what NCCL's GIN needs")
    asked = request("primitive_nccl", "allgather", Backend.NCCL_DEVICE, Mode.CHECK)
    report = judge.evaluate(msgspec.structs.replace(asked, source=bundle))
    assert report.verdict is Verdict.UNSUPPORTED, report.message
    assert "RDMA network card" in report.message


def test_a_copy_is_recorded_with_its_bytes(reports):
    recorded_work = reports("primitive_copy_engine", Backend.CUDA).recorded_work
    (peers,) = [work for work in recorded_work.works if work.kind is WorkKind.COPY and "PtoP" in work.name]
    assert peers.count == WORLD_SIZE - 1
    assert peers.bytes == (WORLD_SIZE - 1) * 1024 * 1024 * 2


def test_multicast_that_the_text_does_not_name_is_found_in_the_compiled_code(judge):
    asked = request("primitive_multimem", "allgather", Backend.CUDA, Mode.CHECK)
    (source,) = asked.source.files
    text = source.text.replace("multimem.st", 'multi" "mem.st').replace("multicast_ptr", "buffer_ptrs[0]")
    pasted = SourceBundle(files=(SourceFile(path=source.path, text=text),))
    report = judge.evaluate(msgspec.structs.replace(asked, source=pasted))
    assert report.verdict is Verdict.UNSUPPORTED, (report.message, report.primitives)
    assert "multicast instruction (multimem.st" in report.message


@pytest.mark.parametrize("name", ["primitive_copy_engine", "primitive_tma", "gpu_allgather"])
def test_the_links_carry_what_the_problem_needs_and_hardly_more(reports, name):
    backend = next(backend for other, backend, *_ in SHOWN if other == name)
    for size in reports(name, backend).record.sizes:
        found = size.links
        assert found.note == ""
        assert found.flag == ""
        assert found.calls >= 1
        assert len(found.sent_bytes) == len(found.received_bytes) == WORLD_SIZE
        if found.least_bytes * found.calls >= link_traffic.LEAST_BYTES:
            assert all(0.99 <= moved / found.least_bytes <= 1.1 for moved in found.received_bytes)


def test_a_right_answer_that_crossed_no_link_is_flagged(reports):
    report = reports("primitive_host_memory", Backend.PYTORCH)
    assert report.verdict is Verdict.PASSED, (report.message, report.findings, report.ranks)
    base = next(size.links for size in report.record.sizes if size.size == "base")
    assert "the problem needs" in base.flag


def test_kernels_are_recorded_with_their_times(reports):
    recorded_work = reports("gpu_allgather", Backend.CUDA).recorded_work
    assert recorded_work.note == ""
    kernels = [work for work in recorded_work.works if work.kind is WorkKind.KERNEL]
    assert any("gather" in kernel.name and kernel.us > 0 and kernel.ranks == WORLD_SIZE for kernel in kernels)


def test_a_library_collective_behind_an_extension_is_found_by_its_kernel(reports):
    checked = reports("primitive_nccl_hidden", Backend.CUDA)
    assert checked.verdict is Verdict.PASSED, (checked.message, checked.findings, checked.ranks)
    assert any("ncclDevKernel" in warning.message for warning in checked.warnings)
    ranked = reports("primitive_nccl_hidden", Backend.CUDA, Mode.RANKED)
    assert ranked.verdict is Verdict.FORBIDDEN, (ranked.message, ranked.findings)
    assert "ncclDevKernel" in ranked.message


def test_a_ranked_submission_is_recorded_after_its_timed_calls(reports):
    report = reports("gpu_allgather", Backend.CUDA, Mode.RANKED)
    assert report.verdict is Verdict.PASSED, (report.message, report.findings, report.ranks)
    assert report.recorded_work is not None
    assert report.recorded_work.works
