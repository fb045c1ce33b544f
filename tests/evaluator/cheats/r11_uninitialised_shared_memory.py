"""Row 11, uninitialised shared memory: hands out what lies in shared memory, in the hope that it is the right answer.

Problem: allreduce
Mode: check
Needs: GPUs
Accepted: WRONG_RESULT, NOT_FINITE, STALE_OUTPUT, NONDETERMINISTIC, INCOMPLETE_OUTPUT
"""

import functools

import torch
from utils.cuda_helpers import compile_cuda_extension

_CUDA = r"""
#include <cstdint>
#include <cuda_runtime.h>
#include <pybind11/pybind11.h>

__global__ void leftovers(uint32_t* output, int64_t words) {
    extern __shared__ uint32_t held[];
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < words; i += stride)
        output[i] = held[i % 12288];
}

void run(int64_t output, int64_t words, int64_t stream) {
    // Over the limit: this launch fails and leaves the output as the allocator gave it.
    leftovers<<<132, 512, 300 * 1024, reinterpret_cast<cudaStream_t>(stream)>>>(
        reinterpret_cast<uint32_t*>(output), words);
    cudaGetLastError();
    leftovers<<<132, 512, 48 * 1024, reinterpret_cast<cudaStream_t>(stream)>>>(
        reinterpret_cast<uint32_t*>(output), words / 2);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""


@functools.cache
def _extension():
    return compile_cuda_extension("leftovers", _CUDA)


def solution(tensor):
    out = torch.empty_like(tensor)
    words = out.numel() * out.element_size() // 4
    _extension().run(out.data_ptr(), words, torch.cuda.current_stream().cuda_stream)
    return out
