"""All-gather whose kernel writes far outside every allocation."""

import functools

import torch
import torch.distributed as dist
from utils.cuda_helpers import compile_cuda_extension

CUDA = r"""
#include <cstdint>
#include <cuda_runtime.h>
#include <pybind11/pybind11.h>

__global__ void write_far(char* start) { start[(int64_t{1} << 45) + threadIdx.x] = 1; }

void copy(int64_t output, int64_t stream) {
    write_far<<<1, 32, 0, reinterpret_cast<cudaStream_t>(stream)>>>(reinterpret_cast<char*>(output));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("copy", &copy); }
"""


@functools.cache
def extension():
    return compile_cuda_extension("astray_allgather", CUDA)


def solution(tensor):
    out = torch.empty((dist.get_world_size(), *tensor.shape), dtype=tensor.dtype, device=tensor.device)
    extension().copy(out.data_ptr(), torch.cuda.current_stream().cuda_stream)
    return out
