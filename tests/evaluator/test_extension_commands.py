"""The commands that build a CUDA extension, as text: no compiler runs here."""

from pathlib import Path

import pytest

from evaluator.arena.compat.utils import cuda_build
from evaluator.arena.compat.utils.cuda_build import Extension


@pytest.fixture(autouse=True)
def toolkit(tmp_path, monkeypatch):
    """A tool kit by name alone; builds are not started."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv(cuda_build.ARCHITECTURES_VARIABLE, "90a")
    cuda_build.cuda_home.cache_clear()
    yield
    cuda_build.cuda_home.cache_clear()


def test_relocatable_device_code_is_linked_by_nvcc_with_the_libraries_it_names():
    library = Extension(
        name="kernels",
        source="",
        cuda_flags=("-rdc=true",),
        link_flags=("-L/opt/nvshmem/lib", "-lnvshmem_device", "-l:libnvshmem_host.so.3"),
    )
    assert library.is_relocatable
    command = cuda_build.device_link_command(library, target=Path("kernels.device.o"), compiled=Path("kernels.o"))
    assert command[1:5] == ["-dlink", "kernels.o", "-o", "kernels.device.o"]
    assert "-gencode=arch=compute_90a,code=[sm_90a,compute_90a]" in command
    assert command[-2:] == ["-L/opt/nvshmem/lib", "-lnvshmem_device"]


def test_an_architecture_that_the_author_chose_holds_for_the_device_link_too():
    chosen = Extension(name="kernels", source="", cuda_flags=("-dc", "-arch=sm_90"))
    command = cuda_build.device_link_command(chosen, target=Path("out.o"), compiled=Path("in.o"))
    assert "-arch=sm_90" in command
    assert not any(part.startswith("-gencode") for part in command)


def test_whole_programs_need_no_device_link():
    assert not Extension(name="kernels", source="", cuda_flags=("-O3",)).is_relocatable
