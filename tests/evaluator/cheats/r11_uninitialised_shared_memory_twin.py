"""Twin of row 11: a copy through shared memory, written before it is read.

Problem: allreduce
Mode: check
Needs: GPUs
Accepted: PASSED
"""

import functools

import torch
import torch.distributed as dist
from utils.cuda_helpers import compile_cuda_extension

_CUDA = r"""
#include <cstdint>
#include <cuda_runtime.h>
#include <pybind11/pybind11.h>

__global__ void staged(const uint16_t* input, uint16_t* output, int64_t words) {
    extern __shared__ uint16_t held[];
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t start = blockIdx.x * static_cast<int64_t>(blockDim.x); start < words; start += stride) {
        const int64_t here = start + threadIdx.x;
        const int64_t turned = start + blockDim.x - 1 - threadIdx.x;
        if (here < words) held[threadIdx.x] = input[here];
        __syncthreads();
        if (turned < words) output[turned] = held[blockDim.x - 1 - threadIdx.x];
        __syncthreads();
    }
}

void run(int64_t input, int64_t output, int64_t words, int64_t stream) {
    staged<<<132, 512, 512 * sizeof(uint16_t), reinterpret_cast<cudaStream_t>(stream)>>>(
        reinterpret_cast<const uint16_t*>(input), reinterpret_cast<uint16_t*>(output), words);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""


@functools.cache
def _extension():
    return compile_cuda_extension("staged", _CUDA)


def solution(tensor):
    out = torch.empty_like(tensor)
    words = out.numel() * out.element_size() // 2
    _extension().run(tensor.data_ptr(), out.data_ptr(), words, torch.cuda.current_stream().cuda_stream)
    dist.all_reduce(out)
    return out
