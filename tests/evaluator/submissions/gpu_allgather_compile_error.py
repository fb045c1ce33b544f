"""All-gather whose CUDA source does not compile: an undeclared name in line 8 of the source."""

import functools

from utils.cuda_helpers import compile_cuda_extension

CUDA = r"""#include <cstdint>
#include <cuda_runtime.h>
#include <pybind11/pybind11.h>

__global__ void gather(const char* input, char* output, int64_t bytes) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    // The loop's bound was renamed and this line forgotten.
    if (i < byte_count) output[i] = input[i];
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}
"""


@functools.cache
def extension():
    return compile_cuda_extension("unfinished_allgather", CUDA)


def solution(tensor):
    return extension().gather(tensor)
