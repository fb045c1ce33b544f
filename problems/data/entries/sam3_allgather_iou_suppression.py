"""Masks of all ranks without duplicates: bits travel first, then only the masks that stay, straight into float32.

Every rank copies its masks to symmetric memory and writes their bits and pixel counts to all peers. After one meeting
the blocks of an object decide whether it gives way, and then fill its mask or read it from its owner. Pairs whose
counts by stretches of 4096 pixels already exclude the overlap are passed over, the others counted in full.
"""

import functools

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from utils.cuda_helpers import compile_cuda_extension

STRETCH = 4096  # pixels of one block
FLAG_BYTES = 1024
RESIDENT_BLOCKS = 264  # two of 1024 threads on each of 132 multiprocessors

CUDA = r"""
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

constexpr int kMaxRanks = 8;
constexpr int kStretch = 4096;
constexpr int kOfferThreads = kStretch / 8;
constexpr int kBitVectors = kStretch / 128;  // vectors of 16 bytes that hold the bits of a stretch
constexpr int kCollectThreads = 1024;
constexpr int kUnroll = 4;
constexpr unsigned kAll = 0xffffffffu;
constexpr float kSuppressed = -10.0f;

struct Peers { char* base[kMaxRanks]; };
struct Counts { int objects[kMaxRanks]; };

// Where a slot of symmetric memory holds what; bytes from its rank's base.
struct Layout { int64_t masks, bits, pixels, scores; };

struct Shape { int vectors, stretches, objects, rank, world; };  // vectors of 8 pixels, per mask

__device__ __forceinline__ void store_release(uint32_t* address, uint32_t value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

__device__ __forceinline__ uint32_t load_acquire(const uint32_t* address) {
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

__device__ __forceinline__ float2 unpack(uint32_t pair) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
}

// A block per own object and stretch: a copy for the peers to read, bits and their number for all.
__global__ void __launch_bounds__(kOfferThreads) offer(
    const uint4* masks, const __nv_bfloat16* scores, const __grid_constant__ Peers peers, Layout layout, Shape shape,
    int first_object) {
    __shared__ __align__(16) uint8_t bits[kOfferThreads];
    __shared__ unsigned warp_pixels[kOfferThreads / 32];
    const int object = blockIdx.y, stretch = blockIdx.x, tid = threadIdx.x;
    const int vector = stretch * kOfferThreads + tid;
    unsigned inside = 0;
    if (vector < shape.vectors) {
        const int64_t place = static_cast<int64_t>(object) * shape.vectors + vector;
        const uint4 held = __ldcs(masks + place);
        reinterpret_cast<uint4*>(peers.base[shape.rank] + layout.masks)[place] = held;
        const uint32_t words[4] = {held.x, held.y, held.z, held.w};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            const float2 pair = unpack(words[w]);
            inside |= (pair.x > 0) << (2 * w) | (pair.y > 0) << (2 * w + 1);
        }
    }
    bits[tid] = static_cast<uint8_t>(inside);
    const unsigned in_warp = __reduce_add_sync(kAll, static_cast<unsigned>(__popc(inside)));
    if (tid % 32 == 0) warp_pixels[tid / 32] = in_warp;
    __syncthreads();
    const int64_t row = static_cast<int64_t>(first_object + object) * shape.stretches + stretch;
    if (tid < shape.world * kBitVectors)
        reinterpret_cast<uint4*>(peers.base[tid / kBitVectors] + layout.bits)[row * kBitVectors + tid % kBitVectors] =
            reinterpret_cast<const uint4*>(bits)[tid % kBitVectors];
    if (tid < shape.world) {
        unsigned pixels = 0;
        for (unsigned part : warp_pixels) pixels += part;
        reinterpret_cast<uint32_t*>(peers.base[tid] + layout.pixels)[row] = pixels;
        if (stretch == 0)
            reinterpret_cast<float*>(peers.base[tid] + layout.scores)[first_object + object] =
                __bfloat162float(scores[object]);
    }
}

// Whether an overlap reaches the threshold, rounded as the quotient of two floats.
__device__ __forceinline__ bool reaches(unsigned both, unsigned sizes, float threshold) {
    const unsigned either = sizes - both;
    return __fdiv_rn(static_cast<float>(both), static_cast<float>(max(either, 1u))) >= threshold;
}

// Several blocks per object: each finds out for itself whether the object gives way, then writes its part of the mask.
__global__ void __launch_bounds__(kCollectThreads) collect(
    const uint4* own_masks, const int64_t* last, float4* masks, float* scores, uint8_t* suppressed,
    const __grid_constant__ Peers peers, const __grid_constant__ Counts counts, Layout layout, Shape shape,
    float threshold, bool reverse, uint32_t call) {
    __shared__ int gives_way;
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    if (tid == 0) gives_way = 0;
    if (tid < shape.world) {
        // What the kernels before this one wrote is there; block 0 says so for its rank.
        if (blockIdx.x == 0) store_release(reinterpret_cast<uint32_t*>(peers.base[tid]) + shape.rank, call);
        const uint32_t* flag = reinterpret_cast<const uint32_t*>(peers.base[shape.rank]) + tid;
        while (static_cast<int32_t>(load_acquire(flag) - call) < 0) {}
    }
    __syncthreads();

    const char* here = peers.base[shape.rank];
    const int splits = gridDim.x / shape.objects, part = blockIdx.x % splits;
    int first_own = 0;
    for (int r = 0; r < shape.rank; ++r) first_own += counts.objects[r];
    // Starting with the rank's own objects, so that the ranks do not all read from the same one at a time.
    const int object = (blockIdx.x / splits + first_own) % shape.objects;
    const uint32_t* pixels = reinterpret_cast<const uint32_t*>(here + layout.pixels);
    const uint4* bits = reinterpret_cast<const uint4*>(here + layout.bits);
    const int words = shape.stretches * kBitVectors;
    const int64_t mine = last[object];
    for (int other = warp; other < shape.objects; other += kCollectThreads / 32) {
        const int64_t its = last[other];
        if (other == object || its <= -1 || (reverse ? mine >= its : mine <= its)) continue;
        unsigned sizes = 0, most = 0;
        for (int s = lane; s < shape.stretches; s += 32) {
            const unsigned a = __ldcg(pixels + object * shape.stretches + s);
            const unsigned b = __ldcg(pixels + other * shape.stretches + s);
            sizes += a + b;
            most += min(a, b);
        }
        sizes = __reduce_add_sync(kAll, sizes);
        most = __reduce_add_sync(kAll, most);
        if (!reaches(most, sizes, threshold) || *static_cast<volatile int*>(&gives_way)) continue;
        unsigned both = 0;
        for (int w = lane; w < words; w += 32) {
            const uint4 a = __ldcg(bits + static_cast<int64_t>(object) * words + w);
            const uint4 b = __ldcg(bits + static_cast<int64_t>(other) * words + w);
            both += __popc(a.x & b.x) + __popc(a.y & b.y) + __popc(a.z & b.z) + __popc(a.w & b.w);
        }
        both = __reduce_add_sync(kAll, both);
        if (lane == 0 && reaches(both, sizes, threshold)) gives_way = 1;
    }
    __syncthreads();
    if (part == 0 && tid == 0) {
        suppressed[object] = gives_way;
        scores[object] = __ldcg(reinterpret_cast<const float*>(here + layout.scores) + object);
    }

    int owner = 0, first = 0;
    while (object - first >= counts.objects[owner]) first += counts.objects[owner++];
    const uint4* source =
        (owner == shape.rank ? own_masks : reinterpret_cast<const uint4*>(peers.base[owner] + layout.masks)) +
        static_cast<int64_t>(object - first) * shape.vectors;
    float4* target = masks + static_cast<int64_t>(object) * shape.vectors * 2;
    const int width = (shape.vectors + splits - 1) / splits;
    const int end = min((part + 1) * width, shape.vectors);
    for (int start = part * width + tid; start < end; start += kUnroll * kCollectThreads) {
        uint4 held[kUnroll];
        if (!gives_way) {
#pragma unroll
            for (int u = 0; u < kUnroll; ++u)
                if (start + u * kCollectThreads < end) held[u] = source[start + u * kCollectThreads];
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const int64_t i = start + u * kCollectThreads;
            if (i >= end) break;
            float4 low = make_float4(kSuppressed, kSuppressed, kSuppressed, kSuppressed), high = low;
            if (!gives_way) {
                const float2 a = unpack(held[u].x), b = unpack(held[u].y), c = unpack(held[u].z), d = unpack(held[u].w);
                low = make_float4(a.x, a.y, b.x, b.y);
                high = make_float4(c.x, c.y, d.x, d.y);
            }
            __stcs(target + 2 * i, low);
            __stcs(target + 2 * i + 1, high);
        }
    }
}

void suppress(int64_t own_masks, int64_t own_scores, int64_t last, int64_t masks, int64_t scores, int64_t suppressed,
              const std::vector<int64_t>& bases, const std::vector<int>& object_counts,
              const std::vector<int64_t>& offsets, int vectors, int splits, int rank, float threshold, bool reverse,
              int64_t call, int64_t stream_address) {
    Peers peers{};
    Counts counts{};
    const int world = static_cast<int>(bases.size());
    if (world > kMaxRanks || object_counts.size() != bases.size())
        throw std::runtime_error("written for at most 8 ranks, with one number of objects each");
    int first = 0, objects = 0;
    for (int peer = 0; peer < world; ++peer) {
        peers.base[peer] = reinterpret_cast<char*>(bases[peer]);
        counts.objects[peer] = object_counts[peer];
        if (peer < rank) first += object_counts[peer];
        objects += object_counts[peer];
    }
    const Layout layout{offsets.at(0), offsets.at(1), offsets.at(2), offsets.at(3)};
    const Shape shape{vectors, (vectors + kOfferThreads - 1) / kOfferThreads, objects, rank, world};
    const auto stream = reinterpret_cast<cudaStream_t>(stream_address);
    const auto* held = reinterpret_cast<const uint4*>(own_masks);
    if (counts.objects[rank] > 0)
        offer<<<dim3(shape.stretches, counts.objects[rank]), kOfferThreads, 0, stream>>>(
            held, reinterpret_cast<const __nv_bfloat16*>(own_scores), peers, layout, shape, first);
    if (objects > 0)
        collect<<<objects * splits, kCollectThreads, 0, stream>>>(
            held, reinterpret_cast<const int64_t*>(last), reinterpret_cast<float4*>(masks),
            reinterpret_cast<float*>(scores), reinterpret_cast<uint8_t*>(suppressed), peers, counts, layout, shape,
            threshold, reverse, static_cast<uint32_t>(call));
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) throw std::runtime_error(std::string("launch: ") + cudaGetErrorString(error));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("suppress", &suppress); }
"""


@functools.cache
def extension():
    return compile_cuda_extension("iou_bits_first", CUDA)


class Exchange:
    """Symmetric memory for up to `capacity` objects per rank: flags, and two slots by turns.

    A slot is written again two calls later, when the meeting of the call between has shown that every rank has read it.
    """

    def __init__(self, capacity, pixels, group):
        device = torch.device("cuda", torch.cuda.current_device())
        world = dist.get_world_size(group)
        stretches = -(-pixels // STRETCH)
        sizes = (capacity * pixels * 2, world * capacity * stretches * STRETCH // 8, world * capacity * stretches * 4,
                 world * capacity * 4)
        self.starts = [0]
        for size in sizes:
            self.starts.append(self.starts[-1] + -(-size // 256) * 256)
        self.memory = symm_mem.empty(FLAG_BYTES + 2 * self.starts[-1], dtype=torch.uint8, device=device)
        self.memory.zero_()
        self.handle = symm_mem.rendezvous(self.memory, group)
        self.bases = [self.handle.get_buffer(peer, (1,), torch.uint8).data_ptr() for peer in range(world)]
        self.calls = 0
        torch.cuda.synchronize()
        dist.barrier(group)  # no flag may be raised before every rank has cleared its own

    def next_slot(self):
        """Offsets of masks, bits, numbers of pixels and scores in the slot of a new call."""
        self.calls += 1
        slot = FLAG_BYTES + self.calls % 2 * self.starts[-1]
        return [slot + start for start in self.starts[:4]]


@functools.cache
def exchange(capacity, pixels, group):
    return Exchange(capacity, pixels, group)


def solution(low_res_masks_local, obj_scores_local, num_obj_per_gpu, last_occluded, iou_threshold=0.7, reverse=False,
             group=None):
    own, scores_own = low_res_masks_local.contiguous(), obj_scores_local.contiguous()
    height, width = own.shape[1:]
    if own.dtype != torch.bfloat16:
        raise ValueError(f"masks are {own.dtype}; written for bfloat16")
    if missing := -height * width % 8:
        # The kernel takes 8 pixels at a time. Zeros are outside of every object, so that they are counted nowhere.
        filled = torch.nn.functional.pad(own.flatten(1), (0, missing)).unsqueeze(1)
        masks, scores, suppressed = solution(
            filled, scores_own, num_obj_per_gpu, last_occluded, iou_threshold, reverse, group
        )
        return masks[:, 0, :-missing].contiguous().view(-1, height, width), scores, suppressed
    # A power of two, so that changing counts seldom need new symmetric memory.
    capacity = 1 << (max(*num_obj_per_gpu, 1) - 1).bit_length()
    state = exchange(capacity, height * width, group or dist.group.WORLD)
    objects, device = sum(num_obj_per_gpu), own.device
    masks = torch.empty((objects, height, width), dtype=torch.float32, device=device)
    scores = torch.empty(objects, dtype=torch.float32, device=device)
    suppressed = torch.empty(objects, dtype=torch.bool, device=device)
    splits = max(1, min(16, RESIDENT_BLOCKS // max(objects, 1)))
    slot = state.next_slot()
    extension().suppress(
        own.data_ptr(), scores_own.data_ptr(), last_occluded.data_ptr(), masks.data_ptr(), scores.data_ptr(),
        suppressed.data_ptr(), state.bases, num_obj_per_gpu, slot, height * width // 8, splits,
        state.handle.rank, iou_threshold, reverse, state.calls, torch.cuda.current_stream().cuda_stream,
    )
    return masks, scores, suppressed
