"""Filtered token log-probabilities: one pass over the logits picks candidates, 64 bytes per row part cross the links.

Every part of a row (at most 16384 logits) offers its maximum, its sum of exponentials, its 24 largest logits and the
target's, written straight into the peers' symmetric memory. After one meeting a warp per row finds the threshold of
top-k and top-p among the candidates. Where they do not settle it (large top_k, flat rows), the warps of all ranks
bisect over whole rows together. Logits equal to the last survivor of top-p survive with it.
"""

import functools

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from utils.cuda_helpers import compile_cuda_extension

PART_VECTORS = 2048  # vectors of 16 bytes that a block keeps in registers
RECORD_BYTES = 64
MAX_SOURCES = 16  # parts of one row on all ranks
MAX_WARPS = 132 * 32
FLAG_BYTES = 1024
NOTE_BYTES = MAX_WARPS * 2 * 8 * 16

CUDA = r"""
#include <cfloat>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

constexpr int kMaxRanks = 8;
constexpr int kThreads = 256;
constexpr int kVectors = 8;  // per thread
constexpr int kGroups = 16;  // groups of threads: the least of their maxima has 16 logits at or above it
constexpr int kGroupThreads = kThreads / kGroups;
constexpr int kCandidates = 512;
constexpr int kListed = 24;
constexpr int kMaxSources = 16;
constexpr int kPerLane = kMaxSources * kListed / 32;
constexpr int kMergeThreads = 1024;
constexpr int kMaxBlocks = 132;
constexpr int64_t kFlagBytes = 1024;
constexpr unsigned kAll = 0xffffffffu;
constexpr uint32_t kLowest = 0xff80ff80u;  // two times minus infinity

struct Peers { char* base[kMaxRanks]; };

// What one part of a row offers. Every key at or above `floor` is listed.
struct alignas(16) Record {
    float peak, mass, target;  // mass relative to the peak; target is NaN where it lies elsewhere
    uint16_t count, floor;
    uint16_t key[kListed];
};
static_assert(sizeof(Record) == 64);

struct alignas(16) Note { int count; float mass; uint32_t epoch, unused; };

struct Shape { int64_t rows; int vectors, parts, rank, world; };
struct Filters { int top_k; float top_p; };  // off: 0 and 1

__device__ __forceinline__ void store_release(uint32_t* address, uint32_t value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

__device__ __forceinline__ uint32_t load_acquire(const uint32_t* address) {
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

__device__ __forceinline__ void wait_for(const uint32_t* flag, uint32_t epoch) {
    while (static_cast<int32_t>(load_acquire(flag) - epoch) < 0) {}
}

// bfloat16 as integers of the same order; both zeros are one key.
__device__ __forceinline__ uint32_t key_of(uint32_t bits) {
    if (bits == 0x8000) bits = 0;
    return bits & 0x8000 ? bits ^ 0xffff : bits | 0x8000;
}

__device__ __forceinline__ float value_of(uint32_t bits) { return __uint_as_float(bits << 16); }

__device__ __forceinline__ float value_of_key(uint32_t key) {
    return value_of(key & 0x8000 ? key ^ 0x8000 : key ^ 0xffff);
}

__device__ __forceinline__ float finite(float x) { return fmaxf(x, -FLT_MAX); }

__device__ __forceinline__ float warp_sum(float x) {
    for (int offset = 16; offset; offset /= 2) x += __shfl_xor_sync(kAll, x, offset);
    return x;
}

__device__ __forceinline__ float warp_max(float x) {
    for (int offset = 16; offset; offset /= 2) x = fmaxf(x, __shfl_xor_sync(kAll, x, offset));
    return x;
}

__device__ __forceinline__ const uint32_t* words(const uint4& vector) {
    return reinterpret_cast<const uint32_t*>(&vector);
}

// One block per part of a row: the part stays in registers while candidates are chosen.
template <bool kNeedsMass>
__global__ void __launch_bounds__(kThreads) scan(
    const uint4* logits, const int64_t* target, const __grid_constant__ Peers peers, int64_t offset, Shape shape) {
    __shared__ float group_peak[kGroups];
    __shared__ float warp_mass[kThreads / 32];
    __shared__ uint32_t candidate[kCandidates];
    __shared__ int found;
    __shared__ Record record;
    const int tid = threadIdx.x;
    const int64_t row = blockIdx.x / shape.parts;
    const int part = blockIdx.x % shape.parts;
    const int width = (shape.vectors + shape.parts - 1) / shape.parts;
    const int first = part * width;
    const int count = min(width, shape.vectors - first);
    const uint4* own = logits + row * shape.vectors + first;
    uint4 held[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
        held[i] = tid + i * kThreads < count ? __ldcs(own + tid + i * kThreads)
                                             : make_uint4(kLowest, kLowest, kLowest, kLowest);
    if (tid == 0) {
        const int64_t column = target[row] - (static_cast<int64_t>(shape.rank) * shape.vectors + first) * 8;
        const bool here = column >= 0 && column < static_cast<int64_t>(count) * 8;
        record.target = here ? value_of(reinterpret_cast<const uint16_t*>(own)[column]) : __int_as_float(0x7fffffff);
        found = 0;
    }

    __nv_bfloat162 highest = __float2bfloat162_rn(-INFINITY);
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
#pragma unroll
        for (int w = 0; w < 4; ++w)
            highest = __hmax2(highest, reinterpret_cast<const __nv_bfloat162&>(words(held[i])[w]));
    const float mine = fmaxf(__low2float(highest), __high2float(highest));
    float group = mine;
    for (int step = kGroupThreads / 2; step; step /= 2) group = fmaxf(group, __shfl_xor_sync(kAll, group, step));
    if (tid % kGroupThreads == 0) group_peak[tid / kGroupThreads] = group;
    __syncthreads();
    float bound = group_peak[0], peak = group_peak[0];
#pragma unroll
    for (int g = 1; g < kGroups; ++g) {
        bound = fminf(bound, group_peak[g]);
        peak = fmaxf(peak, group_peak[g]);
    }

    if (mine >= bound) {
#pragma unroll
        for (int i = 0; i < kVectors; ++i) {
            if (tid + i * kThreads >= count) continue;
#pragma unroll
            for (int w = 0; w < 4; ++w)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const uint32_t bits = words(held[i])[w] >> (16 * half) & 0xffff;
                    if (value_of(bits) >= bound) {
                        const int slot = atomicAdd(&found, 1);
                        if (slot < kCandidates) candidate[slot] = key_of(bits);
                    }
                }
        }
    }
    if (kNeedsMass) {
        float mass = 0;
#pragma unroll
        for (int i = 0; i < kVectors; ++i)
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                mass += __expf(value_of(words(held[i])[w] & 0xffff) - finite(peak));
                mass += __expf(value_of(words(held[i])[w] >> 16) - finite(peak));
            }
        mass = warp_sum(mass);
        if (tid % 32 == 0) warp_mass[tid / 32] = mass;
    }
    __syncthreads();

    // A candidate's place among all of them; equals go by their slots.
    const bool fits = found <= kCandidates;
    for (int c = tid; fits && c < found; c += kThreads) {
        const uint32_t key = candidate[c];
        int place = 0;
        for (int other = 0; other < found; ++other)
            place += candidate[other] > key || (candidate[other] == key && other < c);
        if (place < kListed) record.key[place] = key;
        if (place == kListed) record.floor = key + 1;
    }
    if (tid == 0) {
        record.peak = peak;
        record.mass = 0;
        if (kNeedsMass)
            for (float mass : warp_mass) record.mass += mass;
        record.count = fits ? min(found, kListed) : 0;
        if (!fits) record.floor = 0xffff;
        else if (found <= kListed) record.floor = bound == -INFINITY ? 0 : key_of(__float_as_uint(bound) >> 16);
    }
    __syncthreads();
    if (tid < shape.world * 4) {
        char* to = peers.base[tid / 4] + offset +
                   ((row * shape.world + shape.rank) * shape.parts + part) * sizeof(Record);
        reinterpret_cast<uint4*>(to)[tid % 4] = reinterpret_cast<const uint4*>(&record)[tid % 4];
    }
}

struct Measured { int count; float mass; };

// Candidates of a row, spread over the lanes of a warp; a key of 0 is none.
struct Candidates {
    uint32_t key[kPerLane];
    float mass[kPerLane];

    // How many keys are at or above `threshold` > 0, and their mass.
    __device__ Measured operator()(uint32_t threshold) const {
        Measured all{0, 0};
#pragma unroll
        for (int j = 0; j < kPerLane; ++j)
            if (key[j] >= threshold) {
                all.count += 1;
                all.mass += mass[j];
            }
        return {static_cast<int>(__reduce_add_sync(kAll, all.count)), warp_sum(all.mass)};
    }
};

// The whole row on all ranks: each measures its shard and tells the others.
struct Shards {
    const uint4* row;
    int vectors;
    float peak;
    char* const* base;
    int64_t warp;
    int rank, world;
    uint32_t epoch;

    __device__ Measured operator()(uint32_t threshold) {
        const int lane = threadIdx.x % 32;
        Measured all{0, 0};
        for (int i = lane; i < vectors; i += 32) {
            const uint4 vector = row[i];
#pragma unroll
            for (int w = 0; w < 4; ++w)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const uint32_t bits = words(vector)[w] >> (16 * half) & 0xffff;
                    if (key_of(bits) >= threshold) {
                        all.count += 1;
                        all.mass += __expf(value_of(bits) - peak);
                    }
                }
        }
        all = {static_cast<int>(__reduce_add_sync(kAll, all.count)), warp_sum(all.mass)};
        ++epoch;
        const int64_t slot = (warp * 2 + (epoch & 1)) * kMaxRanks;
        if (lane < world) {
            Note* sent = reinterpret_cast<Note*>(base[lane] + kFlagBytes) + slot + rank;
            sent->count = all.count;
            sent->mass = all.mass;
            store_release(&sent->epoch, epoch);
            Note* heard = reinterpret_cast<Note*>(base[rank] + kFlagBytes) + slot + lane;
            wait_for(&heard->epoch, epoch);
            all = {__ldcg(&heard->count), __ldcg(&heard->mass)};
        } else {
            all = {0, 0};
        }
        // Lane r holds rank r's note, so every rank adds in the same order and decides alike.
        return {static_cast<int>(__reduce_add_sync(kAll, all.count)), warp_sum(all.mass)};
    }
};

struct Kept { uint32_t threshold; float mass; };

// The least surviving key and the survivors' mass; `total` is the row's mass.
template <typename Measure>
__device__ Kept filter(Measure& measure, Filters filters, float total, uint32_t peak_key) {
    Kept kept{0, total};
    if (filters.top_k > 0) {
        for (uint32_t bit = 0x8000; bit; bit >>= 1)
            if (measure(kept.threshold | bit).count >= filters.top_k) kept.threshold |= bit;
        kept.mass = measure(max(kept.threshold, 1u)).mass;
    }
    if (filters.top_p < 1) {
        const float wanted = filters.top_p * kept.mass;
        uint32_t threshold = 0;
        for (uint32_t bit = 0x8000; bit; bit >>= 1)
            if (measure(threshold | bit).mass >= wanted) threshold |= bit;
        kept.threshold = min(max(kept.threshold, threshold), peak_key);
        kept.mass = measure(max(kept.threshold, 1u)).mass;
    }
    return kept;
}

__global__ void __launch_bounds__(kMergeThreads) merge(
    const uint4* logits, float* output, const __grid_constant__ Peers peers, uint32_t* epochs, int64_t offset,
    uint32_t call, Shape shape, Filters filters) {
    // Records were written by the kernels before this one; block 0 says so for its rank.
    if (threadIdx.x < shape.world) {
        const int peer = threadIdx.x;
        if (blockIdx.x == 0) store_release(reinterpret_cast<uint32_t*>(peers.base[peer]) + shape.rank, call);
        wait_for(reinterpret_cast<const uint32_t*>(peers.base[shape.rank]) + peer, call);
    }
    __syncthreads();
    const int lane = threadIdx.x % 32;
    const int64_t warp = static_cast<int64_t>(blockIdx.x) * (kMergeThreads / 32) + threadIdx.x / 32;
    const int64_t warps = static_cast<int64_t>(gridDim.x) * (kMergeThreads / 32);
    const int sources = shape.world * shape.parts;
    for (int64_t row = warp; row < shape.rows; row += warps) {
        const Record* records = reinterpret_cast<const Record*>(peers.base[shape.rank] + offset) + row * sources;
        uint4 head = make_uint4(0xff800000u, 0, 0x7fffffffu, 0);
        if (lane < sources) head = __ldcg(reinterpret_cast<const uint4*>(records + lane));
        const float part_peak = __uint_as_float(head.x);
        const float target = __uint_as_float(head.z);
        const int count = head.w & 0xffff;
        const float highest = warp_max(part_peak);
        const float peak = finite(highest);
        const float total = warp_sum(__uint_as_float(head.y) * __expf(part_peak - peak));
        const uint32_t floor = __reduce_max_sync(kAll, head.w >> 16);
        const unsigned has_target = __ballot_sync(kAll, target == target);
        const float wanted = __shfl_sync(kAll, target, has_target ? __ffs(has_target) - 1 : 0);

        Candidates candidates;
#pragma unroll
        for (int j = 0; j < kPerLane; ++j) {
            const int i = lane + 32 * j;
            const int source = i / kListed, place = i % kListed;
            const bool is_listed = place < __shfl_sync(kAll, count, source);  // 0 beyond the sources
            const uint32_t key = is_listed ? __ldcg(&records[source].key[place]) : 0;
            candidates.key[j] = key >= floor ? key : 0;
            candidates.mass[j] = candidates.key[j] ? __expf(value_of_key(key) - peak) : 0;
        }
        const uint32_t peak_key = key_of(__float_as_uint(highest) >> 16);
        bool settled = true;
        if (floor > 0 && (filters.top_k > 0 || filters.top_p < 1)) {
            const Measured known = candidates(floor);
            settled = filters.top_k > 0 ? known.count >= filters.top_k : known.mass >= filters.top_p * total;
        }
        Kept kept;
        if (settled) {
            kept = filter(candidates, filters, total, peak_key);
        } else {
            Shards shards{logits + row * shape.vectors, shape.vectors, peak,       peers.base,
                          warp,                         shape.rank,    shape.world, epochs[warp]};
            kept = filter(shards, filters, total, peak_key);
            __syncwarp();
            if (lane == 0) epochs[warp] = shards.epoch;
            __syncwarp();
        }
        const bool survives = key_of(__float_as_uint(wanted) >> 16) >= kept.threshold;
        if (lane == 0) output[row] = survives ? wanted - peak - logf(kept.mass) : -INFINITY;
    }
}

void log_probs(int64_t logits, int64_t target, int64_t output, const std::vector<int64_t>& bases, int64_t epochs,
               int64_t offset, int64_t call, int64_t rows, int vectors, int parts, int rank, int top_k, float top_p,
               int64_t stream_address) {
    Peers peers{};
    const int world = static_cast<int>(bases.size());
    for (int peer = 0; peer < world && peer < kMaxRanks; ++peer)
        peers.base[peer] = reinterpret_cast<char*>(bases[peer]);
    const Shape shape{rows, vectors, parts, rank, world};
    const auto stream = reinterpret_cast<cudaStream_t>(stream_address);
    const auto* values = reinterpret_cast<const uint4*>(logits);
    const auto* targets = reinterpret_cast<const int64_t*>(target);
    const unsigned blocks = static_cast<unsigned>(rows * parts);
    if (top_k > 0) scan<false><<<blocks, kThreads, 0, stream>>>(values, targets, peers, offset, shape);
    else scan<true><<<blocks, kThreads, 0, stream>>>(values, targets, peers, offset, shape);
    const int64_t wanted = (rows + kMergeThreads / 32 - 1) / (kMergeThreads / 32);
    merge<<<static_cast<unsigned>(wanted < kMaxBlocks ? wanted : kMaxBlocks), kMergeThreads, 0, stream>>>(
        values, reinterpret_cast<float*>(output), peers, reinterpret_cast<uint32_t*>(epochs), offset,
        static_cast<uint32_t>(call), shape, Filters{top_k, top_p});
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) throw std::runtime_error(std::string("launch: ") + cudaGetErrorString(error));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("log_probs", &log_probs); }
"""


@functools.cache
def extension():
    return compile_cuda_extension("log_prob_candidates", CUDA)


class Exchange:
    """Symmetric memory for one shape: flags, notes of the bisection, and two slots of records by turns.

    A slot is written again two calls later, when the meeting of the call between has shown that every rank has read it.
    """

    def __init__(self, rows, shard, group):
        device = torch.device("cuda", torch.cuda.current_device())
        self.vectors = shard // 8
        self.parts = -(-self.vectors // PART_VECTORS)
        sources = self.parts * dist.get_world_size(group)
        if shard % 8 or sources > MAX_SOURCES:
            raise ValueError(f"shards of {shard} columns: written for multiples of 8, at most {MAX_SOURCES} parts")
        self.slot_bytes = rows * sources * RECORD_BYTES
        self.memory = symm_mem.empty(FLAG_BYTES + NOTE_BYTES + 2 * self.slot_bytes, dtype=torch.uint8, device=device)
        self.memory.zero_()
        self.handle = symm_mem.rendezvous(self.memory, group)
        world = self.handle.world_size
        self.bases = [self.handle.get_buffer(peer, (1,), torch.uint8).data_ptr() for peer in range(world)]
        self.epochs = torch.zeros(MAX_WARPS, dtype=torch.int32, device=device)
        self.calls = 0
        torch.cuda.synchronize()
        dist.barrier(group)  # no flag may be raised before every rank has cleared its own

    def next_slot(self):
        self.calls += 1
        return FLAG_BYTES + NOTE_BYTES + self.calls % 2 * self.slot_bytes


@functools.cache
def exchange(rows, shard, group):
    return Exchange(rows, shard, group)


def solution(vocab_parallel_logits, target, tp_group=None, top_k=None, top_p=1.0):
    if vocab_parallel_logits.dtype != torch.bfloat16:
        raise ValueError(f"vocab_parallel_logits is {vocab_parallel_logits.dtype}; written for bfloat16")
    logits, target = vocab_parallel_logits.contiguous(), target.contiguous()
    state = exchange(target.numel(), logits.shape[-1], tp_group or dist.group.WORLD)
    slot = state.next_slot()
    out = torch.empty(target.shape, dtype=torch.float32, device=logits.device)
    extension().log_probs(
        logits.data_ptr(), target.data_ptr(), out.data_ptr(), state.bases, state.epochs.data_ptr(), slot, state.calls,
        target.numel(), state.vectors, state.parts, state.handle.rank, top_k or 0,
        1.0 if top_p is None else top_p, torch.cuda.current_stream().cuda_stream,
    )
    return out
