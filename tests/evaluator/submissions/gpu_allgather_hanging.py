"""All-gather that waits on the device for a flag which no rank ever raises."""

import functools

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from utils.cuda_helpers import compile_cuda_extension

CUDA = r"""
#include <cstdint>
#include <cuda_runtime.h>
#include <pybind11/pybind11.h>

__global__ void await_flag(const volatile uint32_t* flag) {
    while (*flag != 1) {}
}

void wait(int64_t flag, int64_t stream) {
    await_flag<<<1, 1, 0, reinterpret_cast<cudaStream_t>(stream)>>>(reinterpret_cast<const volatile uint32_t*>(flag));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("wait", &wait); }
"""


@functools.cache
def extension():
    return compile_cuda_extension("waiting_allgather", CUDA)


@functools.cache
def flags():
    memory = symm_mem.empty(64, dtype=torch.int32, device=torch.device("cuda", torch.cuda.current_device()))
    memory.zero_()
    return memory, symm_mem.rendezvous(memory, dist.group.WORLD)


def solution(tensor):
    memory, handle = flags()
    extension().wait(memory.data_ptr(), torch.cuda.current_stream().cuda_stream)
    return torch.stack([tensor] * handle.world_size)
