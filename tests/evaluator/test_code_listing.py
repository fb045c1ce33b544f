"""Machine code with source lines: reading what nvdisasm prints, what a hostile module could say, and a real build."""

import shutil
import subprocess
import zlib

import pytest

from evaluator.contract import ContractError, Instruction, KernelCode, MachineCode, Mode
from evaluator.contract.code import MOST_UNPACKED_BYTES, pack
from evaluator.hardware import profiles
from evaluator.host.building.builder import Builder
from evaluator.host.building.code_listing import Lines, machine_code, parse
from evaluator.host.sandbox import bubblewrap, doctor
from evaluator.host.settings import JudgeSettings
from evaluator.judging import recorded_work
from tests.evaluator.building_help import build_job, build_request

PROFILE = "h200x2-nomc"
LISTING = """Resource usage:
 Common:
  GLOBAL:0
 Function _Z3addPf:
  REG:32 STACK:160 SHARED:1024 LOCAL:0 CONSTANT[0]:540 TEXTURE:0 SURFACE:0 SAMPLER:0
//--------------------- .text._Z3addPf --------------------------
_Z3addPf:
.text._Z3addPf:
\t//## File "/tmp/x/add.cu", line 3
        /*0000*/                   LDC R1, c[0x0][0x28] ;
\t//## File "/opt/cuda/include/cuda_bf16.hpp", line 90 inlined at "/tmp/x/add.cu", line 7
\t//## File "/tmp/x/add.cu", line 7
        /*0010*/              @!P0 FMUL R0, R2, 1.5 ;
        /*0020*/                   STG.E desc[UR4][R2.64], R0 ;
.L_x_0:
        /*0030*/                   BRA `(.L_x_0);
        /*0040*/                   NOP;
.L_x_1:

Demangled\t_Z3addPf\tadd(float*)
"""
SOURCE = """import functools
from utils.cuda_helpers import compile_cuda_extension

CUDA = r'''
extern "C" __global__ void scale(float* a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] = a[i] * 2.0f;
}
template <typename T> __global__ void add(T* a) { a[threadIdx.x] += T(1); }
template __global__ void add<float>(float*);
'''


@functools.lru_cache
def module():
    return compile_cuda_extension("tiny", CUDA)


def solution(tensor):
    return module().run(tensor)
"""


def code(name: str, *, packed: bytes = b"", symbol: str = "") -> KernelCode:
    return KernelCode(name=name, symbol=symbol or name, module="m.so", count=1, packed=packed)


class TestParsing:
    def test_instructions_have_their_lines_the_innermost_first(self):
        (kernel,) = parse(LISTING).kernels
        assert [text for text, _ in kernel.entries[:3]] == [
            "LDC R1, c[0x0][0x28]",
            "@!P0 FMUL R0, R2, 1.5",
            "STG.E desc[UR4][R2.64], R0",
        ]
        assert kernel.entries[0][1] == (("/tmp/x/add.cu", 3),)
        assert kernel.entries[2][1] == (("/opt/cuda/include/cuda_bf16.hpp", 90), ("/tmp/x/add.cu", 7))

    def test_usage_and_names_are_read(self):
        found = parse(LISTING)
        assert found.usage == {"_Z3addPf": (32, 160, 1024)}
        assert found.names == {"_Z3addPf": "add(float*)"}

    def test_lines_without_a_form_are_passed_over(self):
        assert parse("\x00\n*/*\n/*zz*/ X ;\nDemangled\n.text.:\n").kernels == []


class TestLines:
    def test_the_authors_own_line_is_preferred_to_a_header(self):
        lines = Lines(["solution.py"], {"add": ("solution.py", 4)})
        met = (("/opt/cuda/include/cuda_bf16.hpp", 90), ("/tmp/x/add.cu", 7))
        assert lines.best(met) == (0, 10)
        assert lines.files == ("solution.py",)

    def test_a_file_of_a_zip_is_found_by_its_path(self):
        lines = Lines(["lib/a.cuh", "solution.py"], {})
        assert lines.best((("/source/lib/a.cuh", 2),)) == (0, 2)
        assert lines.files == ("lib/a.cuh",)

    def test_where_none_is_the_authors_the_headers_name_stands(self):
        lines = Lines(["solution.py"], {"add": ("elsewhere.py", 4)})
        assert lines.best((("/tmp/x/add.cu", 7),)) == (0, 7)
        assert lines.files == ("add.cu",)
        assert lines.best(()) == (-1, 0)


class TestHostileCode:
    def test_a_bomb_is_refused(self):
        bomb = zlib.compress(b" " * (MOST_UNPACKED_BYTES + 1))
        with pytest.raises(ContractError, match="longer than"):
            code("k", packed=bomb).instructions()

    @pytest.mark.parametrize("packed", [b"", b"no code", zlib.compress(b"[[1]]"), pack([])[:-4]])
    def test_anything_else_is_refused(self, packed):
        with pytest.raises(ContractError):
            code("k", packed=packed).instructions()

    def test_what_was_packed_is_read(self):
        entries = (Instruction(text="EXIT", file=0, line=3), Instruction(text=".L_x_0:"))
        assert code("k", packed=pack(entries)).instructions() == entries


class TestChoice:
    def test_what_ran_comes_first_and_the_rest_is_counted(self):
        kernels = tuple(code(f"k{number}") for number in range(recorded_work.MOST_KERNELS + 3))
        found = recorded_work.reported(MachineCode(kernels=kernels), frozenset({"k26", "other"}))
        assert found.kernels[0].name == "k26"
        assert (len(found.kernels), found.dropped) == (recorded_work.MOST_KERNELS, 3)

    def test_a_name_that_the_recording_cut_is_recognised(self):
        name = f"void push<{'int, ' * 60}>(float*)"
        assert recorded_work.has_run(code(name), [name[:160]])
        assert not recorded_work.has_run(code("add(float*)"), ["add(float*, int)"])

    def test_code_that_is_too_large_is_left_out(self):
        kernels = (code("a", packed=bytes(recorded_work.MOST_PACKED_BYTES)), code("b", packed=b"1"))
        found = recorded_work.reported(MachineCode(kernels=kernels), frozenset())
        assert [kernel.name for kernel in found.kernels] == ["a"]
        assert found.dropped == 1


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap on this machine")
@pytest.mark.timeout(300)
def test_a_build_in_mode_profile_lists_its_kernels_beside_the_authors_lines(tmp_path):
    settings = JudgeSettings(profile=PROFILE, work_dir=tmp_path)
    private = tmp_path / "survey"
    private.mkdir()
    bubblewrap.write_private(private)
    confinement = doctor.resolve(profiles.get(PROFILE), settings, private=private)

    def built(mode: Mode):
        request = build_request(("solution.py", SOURCE), mode=mode)
        return Builder(settings).build(request, workdir=tmp_path, sandbox=confinement)

    checked = built(Mode.CHECK)
    assert checked.result.succeeded, checked.result.log
    assert checked.code is None
    # The build is the same one: only its listing is made now, and kept.
    for _ in range(2):
        profiled = built(Mode.PROFILE)
        assert profiled.result.cached
        assert profiled.code.files == ("solution.py",)
        assert {kernel.name for kernel in profiled.code.kernels} == {"scale", "void add<float>(float*)"}
    scale = next(kernel for kernel in profiled.code.kernels if kernel.name == "scale")
    assert scale.registers > 0
    text = SOURCE.splitlines()
    stores = [entry for entry in scale.instructions() if entry.text.startswith(("STG", "@P0 STG"))]
    assert {text[entry.line - 1].strip() for entry in stores} == {"if (i < n) a[i] = a[i] * 2.0f;"}
    assert not list(tmp_path.glob("listing-*"))


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap on this machine")
def test_a_cubin_as_triton_keeps_it_is_listed_and_nonsense_is_counted(tmp_path):
    (tmp_path / "solution.py").mkdir()  # Triton's line numbers name the file that the submission is
    source = tmp_path / "solution.py" / "copy.cu"
    source.write_text('extern "C" __global__ void copy(float* a) {\n  a[threadIdx.x] = a[threadIdx.x + 1];\n}\n')
    cubin = tmp_path / "copy.cubin"
    subprocess.run(["nvcc", "-arch=sm_90a", "-lineinfo", "-cubin", "-o", cubin, source], check=True)
    settings = JudgeSettings(profile=PROFILE, work_dir=tmp_path)
    private = tmp_path / "survey"
    private.mkdir()
    bubblewrap.write_private(private)
    confinement = doctor.resolve(profiles.get(PROFILE), settings, private=private)
    artefacts = {f"triton/{'A' * 52}/copy.cubin": cubin.read_bytes(), f"{'0' * 32}/broken.so": b"no module"}
    request = build_request(("solution.py/copy.cu", source.read_text()))
    found = machine_code(artefacts, job=build_job(tmp_path, confinement, request=request), origins={})
    (kernel,) = found.kernels
    assert (kernel.name, kernel.module) == ("copy", "copy.cubin")
    loads = [entry for entry in kernel.instructions() if entry.text.startswith("LDG")]
    assert [(found.files[entry.file], entry.line) for entry in loads] == [("solution.py/copy.cu", 2)]
    assert found.note == "1 of the build's modules could not be read"
