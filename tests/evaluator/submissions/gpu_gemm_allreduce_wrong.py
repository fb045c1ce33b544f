"""GEMM + all-reduce that forgets the last rank: the sum runs over one product too few."""

import functools

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from utils.cuda_helpers import compile_cuda_extension

CUDA = r"""
#include <cstdint>
#include <vector>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

struct Peers { __nv_bfloat16* base[8]; };

__global__ void sum_products(__nv_bfloat16* output, Peers peers, int64_t count, int world) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count; i += stride) {
        float sum = 0;
        for (int peer = 0; peer < world - 1; ++peer) sum += __bfloat162float(peers.base[peer][i]);
        output[i] = __float2bfloat16_rn(sum);
    }
}

void reduce(int64_t output, const std::vector<int64_t>& bases, int64_t count, int64_t stream) {
    Peers peers{};
    for (size_t peer = 0; peer < bases.size() && peer < 8; ++peer)
        peers.base[peer] = reinterpret_cast<__nv_bfloat16*>(bases[peer]);
    sum_products<<<264, 512, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
        reinterpret_cast<__nv_bfloat16*>(output), peers, count, static_cast<int>(bases.size()));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("reduce", &reduce); }
"""


@functools.cache
def extension():
    return compile_cuda_extension("forgetful_allreduce", CUDA)


@functools.cache
def exchange(rows, columns, dtype):
    memory = symm_mem.empty(rows, columns, dtype=dtype, device=torch.device("cuda", torch.cuda.current_device()))
    handle = symm_mem.rendezvous(memory, dist.group.WORLD)
    bases = [handle.get_buffer(peer, (1,), dtype).data_ptr() for peer in range(handle.world_size)]
    return memory, handle, bases


def solution(A_local, B_local):
    product, handle, bases = exchange(A_local.shape[0], B_local.shape[1], A_local.dtype)
    torch.mm(A_local, B_local, out=product)
    handle.barrier(channel=0)
    out = torch.empty_like(product)
    extension().reduce(out.data_ptr(), bases, out.numel(), torch.cuda.current_stream().cuda_stream)
    handle.barrier(channel=1)
    return out
