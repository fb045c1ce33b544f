"""The steps of nvcc with host and device side by side: the same object as nvcc makes, or nvcc itself."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from evaluator.arena.compat.utils import cuda_build
from evaluator.arena.compat.utils.cuda_build import Extension
from evaluator.arena.compat.utils.nvcc_steps import side_by_side

pytestmark = [
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine"),
    pytest.mark.timeout(300),
]

SOURCE = """
__device__ int counter;
static __device__ float scale[4];
template <typename T> __global__ void kernel(T* values) {
    atomicAdd(&counter, 1);
    values[threadIdx.x] *= static_cast<T>(scale[threadIdx.x % 4]);
}
void run(float* values, double* others) {
    cudaMemcpyToSymbol(scale, values, 4);
    kernel<<<1, 32>>>(values);
    kernel<<<1, 32>>>(others);
}
"""


def command(folder: Path, source: str, *flags: str) -> list[str]:
    (folder / "x.cu").write_text(source)
    extension = Extension(name="x", source=source, cuda_flags=flags)
    return cuda_build.compile_command(extension, source=folder / "x.cu", target=folder / "x.o")


def run(line: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)


def test_the_object_is_the_one_that_nvcc_makes(tmp_path):
    asked = command(tmp_path, SOURCE)
    done = run([*asked, "--keep"], tmp_path)
    assert done.returncode == 0, done.stderr
    compiled, name = tmp_path / "x.o", tmp_path / "x.module_id"
    expected, chosen = compiled.read_bytes(), name.read_text()
    compiled.unlink()

    line = side_by_side(asked, folder=tmp_path)
    assert line is not None
    assert re.fullmatch(r"_[0-9a-f]{8}_\d+_\w+_[0-9a-f]{8}", chosen.strip()), "nvcc's form of a module's name"
    assert re.fullmatch(r"_[0-9a-f]{8}_\d+_\w+_[0-9a-f]{8}", name.read_text())
    name.write_text(chosen)
    done = run(line, tmp_path)
    assert done.returncode == 0, done.stderr
    assert compiled.read_bytes() == expected


@pytest.mark.parametrize("wrong", ["int host = missing_name;", '__global__ void k() { asm volatile("no_such;"); }'])
def test_an_error_of_either_side_fails(tmp_path, wrong):
    line = side_by_side(command(tmp_path, wrong), folder=tmp_path)
    assert line is not None
    assert run(line, tmp_path).returncode != 0
    assert not (tmp_path / "x.o").exists()


def test_what_nvcc_does_in_other_steps_is_left_to_nvcc(tmp_path):
    """Here two architectures, which an author may ask for."""
    two = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in (80, 90)]
    assert side_by_side(command(tmp_path, SOURCE, *two), folder=tmp_path) is None
    assert side_by_side([*command(tmp_path, SOURCE), "--no-such-option"], folder=tmp_path) is None
