"""Which hardware paths are detected in a source and in real machine code (tests/evaluator/listings)."""

import shutil
import subprocess
from pathlib import Path

import pytest

from evaluator.arena.compat.utils import cuda_build
from evaluator.arena.compat.utils.cuda_build import Extension
from evaluator.contract import (
    Backend,
    Detection,
    EvaluationRequest,
    EvidenceSource,
    Mode,
    Primitive,
    SourceBundle,
    SourceFile,
    Verdict,
)
from evaluator.hardware import profiles
from evaluator.host.building import disassembly
from evaluator.host.sandbox import bubblewrap, doctor
from evaluator.host.settings import JudgeSettings
from evaluator.judging import collectives, primitives, reading, source_rules
from problems import registry
from tests.evaluator.building_help import build_job

HERE = Path(__file__).parent
SUBMISSIONS = HERE / "submissions"
PROFILE = "h200x8-nomc"
LISTING = (HERE / "listings" / "primitives.sass").read_text()


def sighted(text: str, *, path: str = "solution.py") -> list[tuple[Primitive, int | None]]:
    bundle = SourceBundle(files=(SourceFile(path=path, text=text),))
    found = primitives.in_source(bundle, collectives=collectives.COLLECTIVES)
    assert all(detection.evidence is EvidenceSource.SOURCE and detection.file == path for detection in found)
    return [(detection.primitive, detection.line) for detection in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch.distributed as dist\ndist.all_reduce(x)\n", (Primitive.NCCL, 2)),
        ("A = r'''\nmultimem.ld_reduce.relaxed.sys [%0];\n'''\n", (Primitive.NVLS, 2)),
        ("A = r'''\ncp.async.bulk.tensor.2d [%0];\n'''\n", (Primitive.TMA, 2)),
        ("A = 'nvshmem_float_put_nbi(x)'\n", (Primitive.NVSHMEM, 1)),
        ("A = 'ncclGetLsaPointer(w, 0, 1)'\n", (Primitive.NCCL_DEVICE, 1)),
        ("A = 'ncclGetMultimemPointer(w, 0, h)'\n", (Primitive.NVLS, 1)),
        ("A = 'cudaMemcpyPeerAsync(a, 0, b, 1, n, s)'\n", (Primitive.COPY_ENGINE, 1)),
        ("def f(h, x):\n    h.get_buffer(1, s, d).copy_(x)\n", (Primitive.COPY_ENGINE, 2)),
        ("def f(h, x):\n    return h.get_buffer(1, s, d) + x\n", (Primitive.SM_LOAD_STORE, 2)),
        ("def f(h):\n    kernel(h.buffer_ptrs_dev)\n", (Primitive.SM_LOAD_STORE, 2)),
        ("A = r'cp.async.bulk.global'\ndef f(h):\n    kernel(h.get_buffer(1, s, d))\n", (Primitive.TMA, 1)),
        ("A = r'ld.acquire.sys.global.u32 %0;'\ndef f(h):\n    kernel(h.buffer_ptrs)\n", (Primitive.SM_LOAD_STORE, 1)),
        ("A = r'multimem.st.relaxed.sys.global.f32'\n", (Primitive.NVLS, 1)),
    ],
)
def test_source_shows_a_primitive_and_its_line(text, expected):
    assert sighted(text) == [expected]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("# multimem would be faster, nvshmem_put too\nx = 1\n", "solution.py"),
        ("A = r'''\n// cp.async.bulk is for later\n/* nvshmem_put\n */\n'''\n", "solution.py"),
        ("// multimem.st\n__global__ void k() {}\n", "kernel.cu"),
        ("dist.all_gather_object(names, name)\n", "solution.py"),
    ],
)
def test_comments_and_set_up_show_nothing(text, path):
    assert sighted(text, path=path) == []


def test_a_source_that_does_not_parse_is_still_read():
    assert sighted("def solution(:\n  multimem.st\n") == [(Primitive.NVLS, 2)]


def test_our_own_kernels_load_and_store_over_nvlink():
    text = (HERE / "submissions" / "gpu_allgather.py").read_text()
    assert Primitive.SM_LOAD_STORE in {primitive for primitive, _ in sighted(text)}


def test_machine_code_shows_primitives_with_the_function_and_the_instruction():
    found = {each.primitive: each.detail for each in primitives.in_machine_code(LISTING, module="p.so")}
    assert set(found) == {Primitive.NVLS, Primitive.TMA, Primitive.SM_LOAD_STORE}
    assert "LDGMC" in found[Primitive.NVLS]
    assert "in multicast" in found[Primitive.NVLS]
    assert "in flags" in found[Primitive.SM_LOAD_STORE]
    assert "3 such instructions" in found[Primitive.TMA]


def test_plain_machine_code_shows_nothing():
    start = LISTING.index("Function : plain")
    assert primitives.in_machine_code(LISTING[start:].split("Function : ")[1], module="p.so") == ()


def test_a_multicast_store_shows_in_ptx_alone():
    store = (HERE / "listings" / "multicast_store.txt").read_text()
    (seen,) = primitives.in_machine_code(store, module="m.so")
    assert seen.primitive is Primitive.NVLS
    assert seen.detail.startswith("multicast instruction (multimem.st.relaxed.sys.global.v4.f32) in")
    without_ptx = store[: store.index("Fatbin ptx code:")]
    assert primitives.names(primitives.in_machine_code(without_ptx, module="m.so")) == (Primitive.SM_LOAD_STORE,)


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("cuMulticastCreate", [Primitive.NVLS]),
        ("ncclDevCommCreate", [Primitive.NCCL_DEVICE]),
        ("ncclAllGather", [Primitive.NCCL]),
        ("cudaMemcpyPeerAsync", [Primitive.COPY_ENGINE]),
        ("nvshmemx_barrier_all_on_stream", [Primitive.NVSHMEM]),
        ("ncclCommInitRank", []),
        ("my_ncclAllGather_notes", []),
    ],
)
def test_a_symbol_of_a_module_shows_a_primitive(symbol, expected):
    found = primitives.in_symbols(b"\x7fELF\0\0" + symbol.encode() + b"\0_init\0", module="m.so")
    assert [seen.primitive for seen in found] == expected
    assert all(seen.detail == f"the symbol {symbol}" for seen in found)


def test_what_nvshmem_does_inside_is_nvshmem():
    listing = "\t\tFunction : _Z21nvshmemi_transfer_rma\n  LD.E.64.STRONG.SYS R4, [R2] ;\n"
    assert primitives.names(primitives.in_machine_code(listing, module="m.so")) == (Primitive.NVSHMEM,)


def test_multicast_in_machine_code_is_unsupported_where_it_is_off():
    found = primitives.in_machine_code(LISTING, module="p.so")
    (finding,) = source_rules.check_machine_code(found, profile=profiles.get("h200x8-nomc"))
    assert finding.verdict is Verdict.UNSUPPORTED
    assert "h200x8-nomc" in finding.message
    assert source_rules.check_machine_code(found, profile=profiles.get("h200x8")) == ()


def test_a_refusal_of_multicast_still_shows_the_primitive():
    source = SourceFile(path="solution.py", text=(SUBMISSIONS / "primitive_multimem.py").read_text())
    request = EvaluationRequest(
        evaluation_id="multimem",
        problem="allgather",
        revision=registry.revision("allgather"),
        source=SourceBundle(files=(source,)),
        backend=Backend.CUDA,
        profile=PROFILE,
        mode=Mode.CHECK,
    )
    found = reading.SourceReading.from_json(reading.read_source(request.to_json()))
    assert {finding.verdict for finding in found.findings} == {Verdict.UNSUPPORTED}
    assert primitives.names(found.primitives) == (Primitive.NVLS,)


@pytest.fixture
def read(tmp_path):
    """Reads a module as the builder does: in its sandbox."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on this machine")
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap on this machine")
    settings, profile = JudgeSettings(profile=PROFILE, work_dir=tmp_path), profiles.get(PROFILE)
    private = tmp_path / "survey"
    private.mkdir()
    bubblewrap.write_private(private)
    confinement = doctor.resolve(profile, settings, private=private)

    def read(artefacts: dict[str, bytes]) -> tuple[str, tuple[Detection, ...]]:
        job = build_job(tmp_path, confinement)
        ((name, text),) = disassembly.listings(artefacts, job=job)
        return name, primitives.in_machine_code(text, module=name)

    return read


def compiled(folder: Path, source: str, *flags: str) -> Path:
    target = folder / "p.so"
    command = ["nvcc", *flags, "-shared", "-Xcompiler", "-fPIC", "-o", target, HERE / "listings" / source]
    subprocess.run(command, check=True)
    return target


def test_a_compiled_module_is_read_inside_the_sandbox(read, tmp_path):
    module = compiled(tmp_path, "primitives.cu", "-arch=sm_90a")
    name, seen = read({"0" * 32 + "/p.so": module.read_bytes()})
    assert name == "p.so"
    assert primitives.names(seen) == (Primitive.SM_LOAD_STORE, Primitive.TMA, Primitive.NVLS)


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((), id="whole program"),
        pytest.param(("-rdc=true",), id="linked from parts"),
        pytest.param(("-arch=sm_90a",), id="architecture of the author's"),
        pytest.param(("-gencode=arch=compute_90a,code=sm_90a",), id="machine code alone"),
        pytest.param(("-gencode", "arch=compute_90,code=sm_90"), id="another architecture alone"),
        pytest.param(("-arch=compute_90a", "-code=sm_90a"), id="machine code alone by -code"),
        pytest.param(("-dc", "-gencode=arch=compute_90a,code=sm_90a"), id="parts with machine code alone"),
    ],
)
def test_no_flags_of_the_author_hide_a_multicast_store(read, tmp_path, flags):
    text = (HERE / "listings" / "multicast_store.cu").read_text()
    extension = Extension(name="p", source=text, cuda_flags=flags)
    path = cuda_build.build(extension, root=tmp_path / "built")
    _, seen = read({"0" * 32 + "/p.so": path.read_bytes()})
    (multicast,) = [detection for detection in seen if detection.primitive is Primitive.NVLS]
    assert "multimem.st.relaxed.sys.global.v4.f32" in multicast.detail
    (finding,) = source_rules.check_machine_code(seen, profile=profiles.get(PROFILE))
    assert finding.verdict is Verdict.UNSUPPORTED


def test_a_multicast_load_in_parts_shows_in_the_linked_machine_code(read, tmp_path):
    flags = ("-rdc=true", "-gencode=arch=compute_90a,code=sm_90a")
    _, seen = read({"0" * 32 + "/p.so": compiled(tmp_path, "primitives.cu", *flags).read_bytes()})
    (multicast,) = [detection for detection in seen if detection.primitive is Primitive.NVLS]
    assert multicast.detail.startswith("multicast load (LDGMC")


def test_a_cubin_is_read_with_the_ptx_that_triton_keeps_beside_it(read, tmp_path):
    source = HERE / "listings" / "multicast_store.cu"
    artefacts = {}
    for kind in ("cubin", "ptx"):
        made = tmp_path / f"scatter.{kind}"
        subprocess.run(["nvcc", "-arch=sm_90a", f"-{kind}", "-o", made, source], check=True)
        artefacts[f"triton/{'A' * 52}/scatter.{kind}"] = made.read_bytes()
    name, seen = read(artefacts)
    assert (name, primitives.names(seen)) == ("scatter.cubin", (Primitive.NVLS,))
