"""The backend that a program's text shows, which may be another than its model was asked for."""

import pytest

from evaluator.contract import Backend, SourceBundle, SourceFile
from evaluator.judging.source_backend import judged_as, shown_backends

KERNEL = '''
from utils.cuda_helpers import compile_cuda_extension

SOURCE = r"""
#include <torch/extension.h>
__global__ void add(float* x) { x[0] += 1; }
"""
'''
TRITON = """
import triton


@triton.jit
def kernel(x):
    pass
"""


def bundle(text, **others):
    files = [SourceFile(path="solution.py", text=text)]
    files += [SourceFile(path=name.replace("_", "."), text=other) for name, other in others.items()]
    return SourceBundle(files=tuple(files))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("import torch\n", [Backend.PYTORCH]),
        (KERNEL, [Backend.CUDA]),
        ("from torch.utils.cpp_extension import load_inline\n", [Backend.CUDA]),
        (TRITON, [Backend.TRITON]),
        (TRITON + KERNEL, [Backend.TRITON, Backend.CUDA]),
        (KERNEL.replace("torch/extension.h", "nvshmem.h"), [Backend.NVSHMEM]),
        (KERNEL.replace("torch/extension.h", "nccl_device.h"), [Backend.NCCL_DEVICE]),
        (KERNEL.replace("torch/extension.h", "kittens.cuh"), [Backend.CUDA]),
        ('"""Not a __global__ kernel, and no import triton."""\n# nvshmem_put\n', [Backend.PYTORCH]),
        ("triton = 1\n", [Backend.PYTORCH]),
        (KERNEL + '\ndef solution(x):\n    """cut off in the', [Backend.CUDA]),
    ],
)
def test_imports_and_written_kernels_show_the_backend(text, shown):
    assert list(shown_backends(bundle(text))) == shown


def test_a_kernel_in_a_file_of_its_own_shows_the_backend():
    assert shown_backends(bundle("import torch\n", kernel_cu="__global__ void f() {}")) == (Backend.CUDA,)


def test_of_several_the_one_that_was_asked_for_counts_and_an_absent_one_never_does():
    both = bundle(TRITON + KERNEL)
    assert judged_as(shown_backends(both), asked=Backend.CUDA) is Backend.CUDA
    assert judged_as(shown_backends(both), asked=Backend.TRITON) is Backend.TRITON
    assert judged_as(shown_backends(bundle(KERNEL)), asked=Backend.TRITON) is Backend.CUDA
    assert judged_as(shown_backends(bundle("x = 1\n")), asked=Backend.TRITON) is Backend.PYTORCH
