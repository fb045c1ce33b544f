"""All-gather into a stack by multicast stores: what one rank writes, the switch writes to every rank."""

import functools

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from utils.cuda_helpers import compile_cuda_extension

CUDA = r"""
#include <cstdint>
#include <stdexcept>
#include <string>
#include <cuda_runtime.h>
#include <pybind11/pybind11.h>

constexpr int kThreads = 512;
constexpr int kBlocks = 132;

__global__ void __launch_bounds__(kThreads) scatter(const float4* input, float4* everywhere, int64_t words) {
    for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < words;
         i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
        const float4 value = input[i];
        asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(everywhere + i),
                     "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w) : "memory");
    }
}

void all_gather(int64_t input, int64_t everywhere, int64_t bytes, int64_t stream) {
    if (bytes % 16) throw std::runtime_error("only multiples of 16 bytes");
    scatter<<<kBlocks, kThreads, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
        reinterpret_cast<const float4*>(input), reinterpret_cast<float4*>(everywhere), bytes / 16);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) throw std::runtime_error(std::string("launch: ") + cudaGetErrorString(error));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("all_gather", &all_gather); }
"""


@functools.cache
def extension():
    return compile_cuda_extension("multicast_allgather", CUDA)


@functools.cache
def exchange(padded, device):
    """A buffer for the whole stack on every rank, each shard of so many bytes, joined to one multicast address."""
    buffer = symm_mem.empty((dist.get_world_size(), padded), dtype=torch.uint8, device=device)
    return buffer, symm_mem.rendezvous(buffer, dist.group.WORLD)


def solution(tensor):
    shard = tensor.contiguous().view(-1).view(torch.uint8)
    bytes_ = shard.numel()
    if bytes_ % 16:  # multicast stores write 16 bytes each
        shard = torch.nn.functional.pad(shard, (0, -bytes_ % 16))
    stack, handle = exchange(shard.numel(), tensor.device)
    handle.barrier(channel=0)  # the peers have copied the call before
    extension().all_gather(
        shard.data_ptr(), handle.multicast_ptr + handle.rank * shard.numel(), shard.numel(),
        torch.cuda.current_stream().cuda_stream,
    )
    handle.barrier(channel=1)
    out = stack[:, :bytes_].clone(memory_format=torch.contiguous_format)
    return out.view(tensor.dtype).view(handle.world_size, *tensor.shape)
