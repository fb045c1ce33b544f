"""Next form, not yet run on GPUs.

Masks of all ranks without duplicates: bits travel first, then only the masks that stay, straight into float32.

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

// One thread per peer. What the kernels before this one wrote is there; block 0 says so for its rank.
__device__ __forceinline__ void meet(const Peers& peers, int rank, int peer, uint32_t call) {
    if (blockIdx.x == 0) store_release(reinterpret_cast<uint32_t*>(peers.base[peer]) + rank, call);
    const uint32_t* flag = reinterpret_cast<const uint32_t*>(peers.base[rank]) + peer;
    while (static_cast<int32_t>(load_acquire(flag) - call) < 0) {}
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
    __shared__ int gives_way, rivals, rival[kCollectThreads];
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    if (tid == 0) gives_way = rivals = 0;
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
    for (int start = 0; start < shape.objects; start += kCollectThreads) {
        const int candidate = start + tid;
        if (candidate < shape.objects && candidate != object) {
            const int64_t its = last[candidate];
            if (its > -1 && (reverse ? mine < its : mine > its)) rival[atomicAdd(&rivals, 1)] = candidate;
        }
        if (start == 0 && tid < shape.world) meet(peers, shape.rank, tid, call);
        __syncthreads();
        for (int r = warp; r < rivals; r += kCollectThreads / 32) {
            if (__any_sync(kAll, *static_cast<volatile int*>(&gives_way))) break;
            const int other = rival[r];
            unsigned sizes = 0, most = 0;
            for (int s = lane; s < shape.stretches; s += 32) {
                const unsigned a = __ldcg(pixels + object * shape.stretches + s);
                const unsigned b = __ldcg(pixels + other * shape.stretches + s);
                sizes += a + b;
                most += min(a, b);
            }
            sizes = __reduce_add_sync(kAll, sizes);
            most = __reduce_add_sync(kAll, most);
            if (!reaches(most, sizes, threshold)) continue;
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
        if (tid == 0) rivals = 0;
        __syncthreads();
    }
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

void check_launch() {
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) throw std::runtime_error(std::string("launch: ") + cudaGetErrorString(error));
}

// Calls alternate between two slots: a slot is written again two calls later, when the meeting of the call between has
// shown that every rank has read it.
class Plan {
  public:
    Plan(const std::vector<int64_t>& bases, const std::vector<int64_t>& offsets, int64_t slot_bytes, int vectors,
         int rank)
        : first_slot_{offsets.at(0), offsets.at(1), offsets.at(2), offsets.at(3)}, slot_bytes_(slot_bytes),
          shape_{vectors, (vectors + kOfferThreads - 1) / kOfferThreads, 0, rank, static_cast<int>(bases.size())} {
        if (bases.size() > kMaxRanks) throw std::runtime_error("written for at most 8 ranks");
        for (size_t peer = 0; peer < bases.size(); ++peer) peers_.base[peer] = reinterpret_cast<char*>(bases[peer]);
    }

    void give(int64_t masks, int64_t scores, const std::vector<int>& counts, int64_t stream) {
        if (static_cast<int>(counts.size()) != shape_.world) throw std::runtime_error("one number of objects per rank");
        ++call_;
        shape_.objects = 0;
        int first = 0;
        for (int peer = 0; peer < shape_.world; ++peer) {
            counts_.objects[peer] = counts[peer];
            if (peer == shape_.rank) first = shape_.objects;
            shape_.objects += counts[peer];
        }
        if (counts_.objects[shape_.rank] > 0)
            offer<<<dim3(shape_.stretches, counts_.objects[shape_.rank]), kOfferThreads, 0,
                    reinterpret_cast<cudaStream_t>(stream)>>>(
                reinterpret_cast<const uint4*>(masks), reinterpret_cast<const __nv_bfloat16*>(scores), peers_, layout(),
                shape_, first);
        check_launch();
    }

    void take(int64_t own_masks, int64_t last, int64_t masks, int64_t scores, int64_t suppressed, float threshold,
              bool reverse, int splits, int64_t stream) const {
        if (shape_.objects > 0)
            collect<<<shape_.objects * splits, kCollectThreads, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
                reinterpret_cast<const uint4*>(own_masks), reinterpret_cast<const int64_t*>(last),
                reinterpret_cast<float4*>(masks), reinterpret_cast<float*>(scores),
                reinterpret_cast<uint8_t*>(suppressed), peers_, counts_, layout(), shape_, threshold, reverse, call_);
        check_launch();
    }

  private:
    Layout layout() const {
        const int64_t slot = (call_ & 1) * slot_bytes_;
        return {first_slot_.masks + slot, first_slot_.bits + slot, first_slot_.pixels + slot, first_slot_.scores + slot};
    }

    Peers peers_{};
    Counts counts_{};
    Layout first_slot_;
    int64_t slot_bytes_;
    Shape shape_;
    uint32_t call_ = 0;
};

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    pybind11::class_<Plan>(m, "Plan")
        .def(pybind11::init<const std::vector<int64_t>&, const std::vector<int64_t>&, int64_t, int, int>())
        .def("give", &Plan::give)
        .def("take", &Plan::take);
}
"""


@functools.cache
def extension():
    return compile_cuda_extension("iou_bits_first", CUDA)


class Exchange:
    """Symmetric memory for up to `capacity` objects per rank: flags, and two slots."""

    def __init__(self, capacity, pixels, group):
        device = torch.device("cuda", torch.cuda.current_device())
        everywhere = capacity * dist.get_world_size(group)
        stretches = -(-pixels // STRETCH)
        # Masks of this rank; bits, pixels per stretch and scores of all.
        sizes = (capacity * pixels * 2, everywhere * stretches * STRETCH // 8, everywhere * stretches * 4, everywhere * 4)
        starts = [FLAG_BYTES]
        for size in sizes:
            starts.append(starts[-1] + -(-size // 256) * 256)
        slot_bytes = starts[-1] - FLAG_BYTES
        self.memory = symm_mem.empty(FLAG_BYTES + 2 * slot_bytes, dtype=torch.uint8, device=device)
        self.memory.zero_()
        self.handle = symm_mem.rendezvous(self.memory, group)
        world = self.handle.world_size
        bases = [self.handle.get_buffer(peer, (1,), torch.uint8).data_ptr() for peer in range(world)]
        self.plan = extension().Plan(bases, starts[:4], slot_bytes, pixels // 8, self.handle.rank)
        torch.cuda.synchronize()
        dist.barrier(group)  # no flag may be raised before every rank has cleared its own


@functools.cache
def exchange(capacity, pixels, group):
    return Exchange(capacity, pixels, group or dist.group.WORLD)


def solution(low_res_masks_local, obj_scores_local, num_obj_per_gpu, last_occluded, iou_threshold=0.7, reverse=False,
             group=None):
    own, scores_own, last = low_res_masks_local.contiguous(), obj_scores_local.contiguous(), last_occluded.contiguous()
    height, width = own.shape[1:]
    if own.dtype != torch.bfloat16 or height * width % 8:
        raise ValueError(f"masks are {own.dtype}, {height} x {width}; written for bfloat16, 8 pixels at a time")
    # A power of two, so that changing counts seldom need new symmetric memory.
    capacity = 1 << (max(*num_obj_per_gpu, 1) - 1).bit_length()
    plan = exchange(capacity, height * width, group).plan
    stream = torch.cuda.current_stream().cuda_stream
    plan.give(own.data_ptr(), scores_own.data_ptr(), num_obj_per_gpu, stream)
    objects, device = sum(num_obj_per_gpu), own.device
    masks = torch.empty((objects, height, width), dtype=torch.float32, device=device)
    scores = torch.empty(objects, dtype=torch.float32, device=device)
    suppressed = torch.empty(objects, dtype=torch.bool, device=device)
    splits = max(1, min(16, RESIDENT_BLOCKS // max(objects, 1)))
    plan.take(
        own.data_ptr(), last.data_ptr(), masks.data_ptr(), scores.data_ptr(), suppressed.data_ptr(), iou_threshold,
        reverse, splits, stream,
    )
    return masks, scores, suppressed
