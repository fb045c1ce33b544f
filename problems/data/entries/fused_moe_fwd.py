"""A mixture-of-experts layer: small networks travel to the tokens, large ones get each token once.

Small networks: every rank pushes its three matrices to all others while it routes its own tokens. Then the layer is two
dense products over the networks of all owners, with zero weight where a token did not choose an owner: nothing depends
on counts, nothing is sorted, the host waits for nothing.

Large networks: a token goes once to each distinct owner of its experts, into a place that follows from counts which the
ranks exchange on the device. The host waits only for the number of rows, while the rows are under way. Owners compute;
the home rank reads results from the owners' memory and adds them in float32, weighted.

Ranks may hold different numbers of tokens, also none: what all ranks share follows from the networks' sizes alone, or
from the largest number of tokens, which the ranks tell one another. More than 8 experts are routed by the library.
"""

import functools

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from utils.cuda_helpers import compile_cuda_extension

HEADER = 65536  # bytes of flags and counts at the start of symmetric memory
PADDING = 8  # columns of the weighted hidden units that carry the weights themselves, for the owners' last biases
KERNEL_EXPERTS = 8  # experts that a warp's registers have room for
SMALL_INNER = 1024  # inner sizes up to here are cheaper to compute for every owner than to send rows for

CUDA = r"""
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

constexpr int kMaxRanks = 8;
constexpr int kMaxExperts = 8;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kPadding = 8;
constexpr int kCounts = 32768;  // bytes from the start of symmetric memory to the counts
constexpr int kScanThreads = 1024;
using bf16 = __nv_bfloat16;
using bf162 = __nv_bfloat162;

struct Peers { char* base[kMaxRanks]; };

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

// Tells the blocks of the same index on every rank what this block wrote; flags only grow.
__device__ __forceinline__ void announce(const Peers& peers, int rank, int world, uint32_t epoch) {
    __syncthreads();
    if (threadIdx.x < world) {
        __threadfence_system();
        store_release(reinterpret_cast<uint32_t*>(peers.base[threadIdx.x]) + blockIdx.x * world + rank, epoch);
    }
}

__device__ __forceinline__ void await_twins(const Peers& peers, int rank, int world, uint32_t epoch) {
    if (threadIdx.x < world)
        wait_for(reinterpret_cast<uint32_t*>(peers.base[rank]) + blockIdx.x * world + threadIdx.x, epoch);
    __syncthreads();
}

struct Router {
    const bf16 *tokens, *weight, *bias;
    float* shares;  // (tokens, ranks): the sum of the probabilities of a token's experts at an owner
    int count, size, experts, top_k, world;
};

// One warp: a token's logits in float32, their softmax, and what its chosen experts weigh at each owner.
__device__ __forceinline__ void route(const Router& router, int token) {
    const int lane = threadIdx.x % 32, words = router.size / 8;
    float logit[kMaxExperts] = {};
    const uint4* row = reinterpret_cast<const uint4*>(router.tokens) + static_cast<int64_t>(token) * words;
    for (int word = lane; word < words; word += 32) {
        const uint4 held = row[word];
        const auto* x = reinterpret_cast<const bf162*>(&held);
#pragma unroll
        for (int expert = 0; expert < kMaxExperts; ++expert) {
            if (expert >= router.experts) break;
            const uint4 gate = __ldg(reinterpret_cast<const uint4*>(router.weight) + expert * words + word);
            const auto* w = reinterpret_cast<const bf162*>(&gate);
#pragma unroll
            for (int pair = 0; pair < 4; ++pair) {
                const float2 a = __bfloat1622float2(x[pair]), b = __bfloat1622float2(w[pair]);
                logit[expert] = fmaf(a.x, b.x, fmaf(a.y, b.y, logit[expert]));
            }
        }
    }
    float highest = -INFINITY, total = 0.0f;
#pragma unroll
    for (int expert = 0; expert < kMaxExperts; ++expert) {
        for (int step = 16; step; step /= 2) logit[expert] += __shfl_xor_sync(~0u, logit[expert], step);
        if (expert < router.experts && router.bias) logit[expert] += __bfloat162float(router.bias[expert]);
        if (expert >= router.experts) logit[expert] = -INFINITY;
        highest = fmaxf(highest, logit[expert]);
    }
#pragma unroll
    for (int expert = 0; expert < kMaxExperts; ++expert) {
        logit[expert] = __expf(logit[expert] - highest);
        total += logit[expert];
    }
    float share[kMaxRanks] = {};
    const int per_owner = router.experts / router.world;
    for (int turn = 0; turn < router.top_k; ++turn) {
        float best = -1.0f;
        int chosen = 0;
#pragma unroll
        for (int expert = 0; expert < kMaxExperts; ++expert)
            if (logit[expert] > best) best = logit[expert], chosen = expert;
#pragma unroll
        for (int expert = 0; expert < kMaxExperts; ++expert)
            if (expert == chosen) logit[expert] = -2.0f;
#pragma unroll
        for (int owner = 0; owner < kMaxRanks; ++owner)
            if (owner == chosen / per_owner) share[owner] += best / total;
    }
#pragma unroll
    for (int owner = 0; owner < kMaxRanks; ++owner)
        if (lane == owner && owner < router.world) router.shares[token * router.world + owner] = share[owner];
}

// --- small networks travel -------------------------------------------------------------------------------------------

struct Network {
    const bf16 *gate, *up, *down, *gate_bias, *up_bias, *down_bias;
    int inner, size;
};

struct Places { int64_t in, out, bias; };  // bytes from the start of symmetric memory, of one turn

// Gathers all networks everywhere: `in` (owner, gate then up, inner, size), `bias` (owner, gate then up, inner),
// `out` (size, owners * inner and then kPadding columns of which the first are the owners' biases).
__global__ void __launch_bounds__(kThreads) share_and_route(
    const __grid_constant__ Network own, const __grid_constant__ Router router, const __grid_constant__ Peers peers,
    Places even, Places odd, uint32_t* epochs, int rank) {
    const uint32_t epoch = epochs[blockIdx.x] + 1;
    const Places at = epoch & 1 ? odd : even;
    const int world = router.world;
    const int thread = blockIdx.x * kThreads + threadIdx.x, threads = gridDim.x * kThreads;
    const int matrix = own.inner * own.size / 8;
    for (int i = thread; i < 2 * matrix; i += threads) {
        const bf16* from = i < matrix ? own.gate : own.up;
        const uint4 word = reinterpret_cast<const uint4*>(from)[i < matrix ? i : i - matrix];
        for (int step = 0; step < world; ++step) {
            char* base = peers.base[(rank + step) % world];
            reinterpret_cast<uint4*>(base + at.in)[static_cast<int64_t>(rank) * 2 * matrix + i] = word;
        }
    }
    const int inner_words = own.inner / 8, row_words = (world * own.inner + kPadding) / 8;
    for (int i = thread; i < matrix; i += threads) {
        const uint4 word = reinterpret_cast<const uint4*>(own.down)[i];
        const int64_t place = static_cast<int64_t>(i / inner_words) * row_words + rank * inner_words + i % inner_words;
        for (int step = 0; step < world; ++step)
            reinterpret_cast<uint4*>(peers.base[(rank + step) % world] + at.out)[place] = word;
    }
    for (int i = thread; i < own.size; i += threads) {
        const bf16 bias = own.down_bias ? own.down_bias[i] : __float2bfloat16_rn(0.0f);
        const int64_t place = static_cast<int64_t>(i) * row_words * 8 + world * own.inner + rank;
        for (int step = 0; step < world; ++step)
            reinterpret_cast<bf16*>(peers.base[(rank + step) % world] + at.out)[place] = bias;
    }
    for (int i = thread; i < 2 * own.inner; i += threads) {
        const bf16* from = i < own.inner ? own.gate_bias : own.up_bias;
        const bf16 bias = from ? from[i < own.inner ? i : i - own.inner] : __float2bfloat16_rn(0.0f);
        for (int step = 0; step < world; ++step)
            reinterpret_cast<bf16*>(peers.base[(rank + step) % world] + at.bias)[rank * 2 * own.inner + i] = bias;
    }
    announce(peers, rank, world, epoch);
    for (int token = thread / 32; token < router.count; token += threads / 32) route(router, token);
    await_twins(peers, rank, world, epoch);
    if (threadIdx.x == 0) epochs[blockIdx.x] = epoch;
}

__device__ __forceinline__ float gated(float gate, float up) { return gate / (1.0f + __expf(-gate)) * up; }

// From products (tokens, owners, gate then up, inner) to weighted hidden units (tokens, owners * inner + kPadding).
__global__ void __launch_bounds__(kThreads) weigh(
    const uint4* products, const uint4* bias, const float* shares, uint4* hidden, int count, int inner, int world) {
    const int row_words = (world * inner + kPadding) / 8, inner_words = inner / 8;
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= count * row_words) return;
    const int token = i / row_words, word = i % row_words;
    uint4 result;
    auto* out = reinterpret_cast<bf162*>(&result);
    if (word == row_words - 1) {
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            const int owner = 2 * pair;
            out[pair] = __floats2bfloat162_rn(owner < world ? shares[token * world + owner] : 0.0f,
                                              owner + 1 < world ? shares[token * world + owner + 1] : 0.0f);
        }
    } else {
        const int owner = word / inner_words, within = word % inner_words;
        const float share = shares[token * world + owner];
        const int64_t place = (static_cast<int64_t>(token) * world + owner) * 2 * inner_words + within;
        const uint4 raw[4] = {products[place], products[place + inner_words], bias[owner * 2 * inner_words + within],
                              bias[owner * 2 * inner_words + inner_words + within]};
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            float2 value[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) value[k] = __bfloat1622float2(reinterpret_cast<const bf162*>(&raw[k])[pair]);
            out[pair] = __floats2bfloat162_rn(share * gated(value[0].x + value[2].x, value[1].x + value[3].x),
                                              share * gated(value[0].y + value[2].y, value[1].y + value[3].y));
        }
    }
    hidden[i] = result;
}

// --- large networks get rows -----------------------------------------------------------------------------------------

__global__ void __launch_bounds__(kThreads) route_all(const __grid_constant__ Router router) {
    const int token = blockIdx.x * kWarps + threadIdx.x / 32;
    if (token < router.count) route(router, token);
}

// One block: the place of every token among those that this rank sends to an owner (-1: not sent), where this rank's
// rows begin at every owner, and how many rows come here. Counts travel as epoch and count in one word, and each rank's
// number of tokens likewise. Where one has more than `capacity`, all ranks see it: then no token has a place, and
// minus the largest number of tokens is given as the number of rows.
__global__ void __launch_bounds__(kScanThreads) place_rows(
    const float* shares, int* places, int* firsts, int* rows, const __grid_constant__ Peers peers, uint32_t* epochs,
    int count, int capacity, int rank, int world) {
    __shared__ int warp_sums[kScanThreads / 32];
    __shared__ int sent[kMaxRanks];
    __shared__ int counts[kMaxRanks * (kMaxRanks + 1)];  // of (source, owner), and then the tokens of every rank
    const uint32_t epoch = epochs[0] + 1;
    const int per_thread = (count + kScanThreads - 1) / kScanThreads;
    const int begin = min(count, static_cast<int>(threadIdx.x) * per_thread), end = min(count, begin + per_thread);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int owner = 0; owner < world; ++owner) {
        int own = 0;
        for (int token = begin; token < end; ++token) own += shares[token * world + owner] > 0.0f;
        int before = own;
        for (int step = 1; step < 32; step *= 2) {
            const int other = __shfl_up_sync(~0u, before, step);
            if (lane >= step) before += other;
        }
        if (lane == 31) warp_sums[warp] = before;
        __syncthreads();
        if (warp == 0) {
            int sum = warp_sums[lane];
            for (int step = 1; step < 32; step *= 2) {
                const int other = __shfl_up_sync(~0u, sum, step);
                if (lane >= step) sum += other;
            }
            warp_sums[lane] = sum;
            if (lane == 31) sent[owner] = sum;
        }
        __syncthreads();
        int place = before - own + (warp ? warp_sums[warp - 1] : 0);
        for (int token = begin; token < end; ++token)
            places[token * world + owner] = shares[token * world + owner] > 0.0f ? place++ : -1;
        __syncthreads();
    }
    const int pairs = world * world;
    bool exceeds = false;
    if (threadIdx.x < pairs + world) {
        const bool is_pair = threadIdx.x < pairs;
        const int peer = is_pair ? threadIdx.x / world : threadIdx.x - pairs, owner = threadIdx.x % world;
        auto* theirs = reinterpret_cast<unsigned long long*>(peers.base[peer] + kCounts)
            + (is_pair ? rank * world + owner : pairs + rank);
        const unsigned long long word =
            static_cast<unsigned long long>(epoch) << 32 | static_cast<uint32_t>(is_pair ? sent[owner] : count);
        asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(theirs), "l"(word) : "memory");
        const auto* mine = reinterpret_cast<unsigned long long*>(peers.base[rank] + kCounts) + threadIdx.x;
        unsigned long long seen;
        do {
            asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(seen) : "l"(mine) : "memory");
        } while (static_cast<int32_t>(static_cast<uint32_t>(seen >> 32) - epoch) < 0);
        counts[threadIdx.x] = static_cast<int>(static_cast<uint32_t>(seen));
        exceeds = !is_pair && counts[threadIdx.x] > capacity;
    }
    const bool is_full = __syncthreads_or(exceeds);
    if (threadIdx.x < world) {
        int first = 0;
        for (int source = 0; source < rank; ++source) first += counts[source * world + threadIdx.x];
        firsts[threadIdx.x] = first;
    }
    if (threadIdx.x == 0) {
        int total = 0;
        for (int source = 0; source < world; ++source) total += counts[source * world + rank];
        for (int source = 0; is_full && source < world; ++source) total = min(total, -counts[pairs + source]);
        *rows = total;
        epochs[0] = epoch;
    }
    if (is_full)
        for (int i = threadIdx.x; i < count * world; i += kScanThreads) places[i] = -1;
}

// One warp per token: its row goes to every owner that it chose.
__global__ void __launch_bounds__(kThreads) push_rows(
    const uint4* tokens, const int* places, const int* firsts, const __grid_constant__ Peers peers, int64_t area,
    int count, int words, int world) {
    const int token = blockIdx.x * kWarps + threadIdx.x / 32;
    if (token >= count) return;
    uint4* target[kMaxRanks];
    int chosen = 0;
    for (int owner = 0; owner < world; ++owner) {
        const int place = places[token * world + owner];
        if (place >= 0)
            target[chosen++] = reinterpret_cast<uint4*>(peers.base[owner] + area)
                + static_cast<int64_t>(firsts[owner] + place) * words;
    }
    for (int word = threadIdx.x % 32; word < words; word += 32) {
        const uint4 held = tokens[static_cast<int64_t>(token) * words + word];
        for (int k = 0; k < chosen; ++k) target[k][word] = held;
    }
}

__global__ void __launch_bounds__(kThreads) gate_in_place(uint4* gate, const uint4* up, int64_t words) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
    if (i >= words) return;
    uint4 left = gate[i];
    const uint4 right = up[i];
    auto* x = reinterpret_cast<bf162*>(&left);
    const auto* y = reinterpret_cast<const bf162*>(&right);
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
        const float2 a = __bfloat1622float2(x[pair]), b = __bfloat1622float2(y[pair]);
        x[pair] = __floats2bfloat162_rn(gated(a.x, b.x), gated(a.y, b.y));
    }
    gate[i] = left;
}

// One block per token: the results of its owners, read from their memory, weighted and added.
__global__ void __launch_bounds__(kThreads) combine(
    uint4* out, const float* shares, const int* places, const int* firsts, const __grid_constant__ Peers peers,
    int64_t area, int words, int world) {
    const int token = blockIdx.x;
    const uint4* source[kMaxRanks];
    float share[kMaxRanks];
    int chosen = 0;
    for (int owner = 0; owner < world; ++owner) {
        const int place = places[token * world + owner];
        if (place >= 0) {
            share[chosen] = shares[token * world + owner];
            source[chosen++] = reinterpret_cast<const uint4*>(peers.base[owner] + area)
                + static_cast<int64_t>(firsts[owner] + place) * words;
        }
    }
    for (int word = threadIdx.x; word < words; word += kThreads) {
        float2 sum[4] = {};
        for (int k = 0; k < chosen; ++k) {
            const uint4 held = __ldcg(source[k] + word);
            const auto* value = reinterpret_cast<const bf162*>(&held);
#pragma unroll
            for (int pair = 0; pair < 4; ++pair) {
                const float2 x = __bfloat1622float2(value[pair]);
                sum[pair].x = fmaf(share[k], x.x, sum[pair].x);
                sum[pair].y = fmaf(share[k], x.y, sum[pair].y);
            }
        }
        uint4 rounded;
#pragma unroll
        for (int pair = 0; pair < 4; ++pair)
            reinterpret_cast<bf162*>(&rounded)[pair] = __floats2bfloat162_rn(sum[pair].x, sum[pair].y);
        out[static_cast<int64_t>(token) * words + word] = rounded;
    }
}

// --- what Python calls -----------------------------------------------------------------------------------------------

void check(const char* what) {
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

Peers peers_of(const std::vector<int64_t>& bases) {
    Peers peers{};
    if (bases.size() > kMaxRanks) throw std::runtime_error("written for at most 8 ranks");
    for (size_t peer = 0; peer < bases.size(); ++peer) peers.base[peer] = reinterpret_cast<char*>(bases[peer]);
    return peers;
}

const bf16* in(int64_t address) { return reinterpret_cast<const bf16*>(address); }

cudaStream_t on(int64_t stream) { return reinterpret_cast<cudaStream_t>(stream); }

// More experts than kMaxExperts are routed before the kernels are called: then `shares` is given.
bool is_routed_here(const Router& router) { return router.count > 0 && router.experts <= kMaxExperts; }

Router router_of(const std::vector<int64_t>& addresses, const std::vector<int>& sizes, int world) {
    return Router{in(addresses[0]), in(addresses[1]), in(addresses[2]), reinterpret_cast<float*>(addresses[3]),
                  sizes[0], sizes[1], sizes[2], sizes[3], world};
}

int blocks_for(int64_t work, int per_block) { return static_cast<int>((work + per_block - 1) / per_block); }

void share(const std::vector<int64_t>& network, int inner, const std::vector<int64_t>& routing,
           const std::vector<int>& sizes, const std::vector<int64_t>& bases, const std::vector<int64_t>& places,
           int64_t epochs, int rank, int blocks, int64_t stream) {
    const int world = static_cast<int>(bases.size());
    const Network own{in(network[0]), in(network[1]), in(network[2]), in(network[3]), in(network[4]), in(network[5]),
                      inner, sizes[1]};
    Router router = router_of(routing, sizes, world);
    if (!is_routed_here(router)) router.count = 0;
    share_and_route<<<blocks, kThreads, 0, on(stream)>>>(
        own, router, peers_of(bases), Places{places[0], places[1], places[2]},
        Places{places[3], places[4], places[5]}, reinterpret_cast<uint32_t*>(epochs), rank);
    check("share_and_route");
}

void weigh_hidden(int64_t products, int64_t bias, int64_t shares, int64_t hidden, int count, int inner, int world,
                  int64_t stream) {
    if (count == 0) return;
    weigh<<<blocks_for(static_cast<int64_t>(count) * (world * inner + kPadding) / 8, kThreads), kThreads, 0,
            on(stream)>>>(reinterpret_cast<const uint4*>(products), reinterpret_cast<const uint4*>(bias),
                          reinterpret_cast<const float*>(shares), reinterpret_cast<uint4*>(hidden), count, inner, world);
    check("weigh");
}

void dispatch(const std::vector<int64_t>& routing, const std::vector<int>& sizes, const std::vector<int64_t>& bases,
              int64_t places, int64_t firsts, int64_t rows, int64_t epochs, int capacity, int rank, int64_t stream) {
    const int world = static_cast<int>(bases.size());
    const Router router = router_of(routing, sizes, world);
    if (is_routed_here(router)) route_all<<<blocks_for(router.count, kWarps), kThreads, 0, on(stream)>>>(router);
    place_rows<<<1, kScanThreads, 0, on(stream)>>>(
        router.shares, reinterpret_cast<int*>(places), reinterpret_cast<int*>(firsts), reinterpret_cast<int*>(rows),
        peers_of(bases), reinterpret_cast<uint32_t*>(epochs), router.count, capacity, rank, world);
    check("route_all and place_rows");
}

void push(int64_t tokens, int64_t places, int64_t firsts, const std::vector<int64_t>& bases, int64_t area, int count,
          int size, int64_t stream) {
    if (count == 0) return;
    push_rows<<<blocks_for(count, kWarps), kThreads, 0, on(stream)>>>(
        reinterpret_cast<const uint4*>(tokens), reinterpret_cast<const int*>(places),
        reinterpret_cast<const int*>(firsts), peers_of(bases), area, count, size / 8, static_cast<int>(bases.size()));
    check("push_rows");
}

void gate(int64_t gates, int64_t ups, int64_t elements, int64_t stream) {
    gate_in_place<<<blocks_for(elements / 8, kThreads), kThreads, 0, on(stream)>>>(
        reinterpret_cast<uint4*>(gates), reinterpret_cast<const uint4*>(ups), elements / 8);
    check("gate_in_place");
}

void gather(int64_t out, int64_t shares, int64_t places, int64_t firsts, const std::vector<int64_t>& bases,
            int64_t area, int count, int size, int64_t stream) {
    if (count == 0) return;
    combine<<<count, kThreads, 0, on(stream)>>>(
        reinterpret_cast<uint4*>(out), reinterpret_cast<const float*>(shares), reinterpret_cast<const int*>(places),
        reinterpret_cast<const int*>(firsts), peers_of(bases), area, size / 8, static_cast<int>(bases.size()));
    check("combine");
}

// A function of the driver, found at run time, so that nothing is linked against it.
template <typename Function>
Function driver(const char* name) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
    if (error != cudaSuccess || found == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
    return reinterpret_cast<Function>(found);
}

using StreamValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned int);

void apply(StreamValue operation, const std::vector<int64_t>& flags, uint32_t value, unsigned kind, int64_t stream) {
    for (int64_t flag : flags) {
        const CUresult result =
            operation(reinterpret_cast<CUstream>(stream), static_cast<CUdeviceptr>(flag), value, kind);
        if (result != CUDA_SUCCESS) throw std::runtime_error("stream memory operation: " + std::to_string(result));
    }
}

// What the stream did before is visible to whoever sees the value.
void raise(const std::vector<int64_t>& flags, uint32_t value, int64_t stream) {
    static const auto write = driver<StreamValue>("cuStreamWriteValue32");
    apply(write, flags, value, CU_STREAM_WRITE_VALUE_DEFAULT, stream);
}

void await(const std::vector<int64_t>& flags, uint32_t value, int64_t stream) {
    static const auto wait = driver<StreamValue>("cuStreamWaitValue32");
    apply(wait, flags, value, CU_STREAM_WAIT_VALUE_GEQ, stream);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("share", &share);
    m.def("weigh", &weigh_hidden);
    m.def("dispatch", &dispatch);
    m.def("push", &push);
    m.def("gate", &gate);
    m.def("gather", &gather);
    m.def("raise_flags", &raise);
    m.def("await_flags", &await);
}
"""


@functools.cache
def extension():
    return compile_cuda_extension("moe_layer", CUDA)


class Symmetric:
    """Memory that all ranks can address, cleared once."""

    def __init__(self, size):
        device = torch.device("cuda", torch.cuda.current_device())
        self.memory = symm_mem.empty(size, dtype=torch.uint8, device=device)
        self.memory.zero_()
        handle = symm_mem.rendezvous(self.memory, dist.group.WORLD)
        self.rank, self.world = handle.rank, handle.world_size
        self.bases = [handle.get_buffer(peer, (1,), torch.uint8).data_ptr() for peer in range(self.world)]
        torch.cuda.synchronize()
        dist.barrier()  # nothing may be written before every rank has cleared its own

    def view(self, start, shape):
        count = shape[0] * shape[1]
        return self.memory[start : start + 2 * count].view(torch.bfloat16).view(shape)


def address(tensor):
    return 0 if tensor is None else tensor.data_ptr()


def route(tokens, router, experts, top_k, shares):
    """Fill `shares` (tokens, ranks) with the sum of the probabilities of a token's experts at an owner."""
    weight, bias = (None if tensor is None else tensor.float() for tensor in router)
    probabilities = torch.nn.functional.linear(tokens.float(), weight, bias).softmax(dim=-1)
    chosen, indices = probabilities.topk(top_k, dim=-1)
    shares.zero_().scatter_add_(1, indices // (experts // shares.shape[1]), chosen)


class Travelling:
    """The networks of all ranks, gathered in two places by turns, for tokens that stay at home.

    A place is written again two calls later, when the meeting of the call between has shown that every rank has ended
    the products of the call before.
    """

    BLOCKS = 128

    def __init__(self, size, inner):
        world = dist.get_world_size()
        self.size, self.inner = size, inner
        self.row = world * inner + PADDING
        parts = (2 * world * inner * size, self.row * size, 2 * world * inner)
        self.places, start = [], HEADER
        for _ in range(2):
            for count in parts:
                self.places.append(start)
                start += -(-2 * count // 256) * 256
        self.shared = Symmetric(start)
        self.epochs = torch.zeros(self.BLOCKS, dtype=torch.int32, device=self.shared.memory.device)
        self.turns = [
            (
                self.shared.view(self.places[3 * turn], (2 * world * inner, size)).t(),
                self.shared.view(self.places[3 * turn + 1], (size, self.row)).t(),
                self.shared.bases[self.shared.rank] + self.places[3 * turn + 2],
            )
            for turn in range(2)
        ]
        self.rooms = {}
        self.calls = 0

    def room(self, tokens):
        """This rank's shares, products and hidden units for so many tokens."""
        if tokens not in self.rooms:
            device, world = self.shared.memory.device, self.shared.world
            self.rooms[tokens] = (
                torch.empty((tokens, world), dtype=torch.float32, device=device),
                torch.empty((tokens, 2 * world * self.inner), dtype=torch.bfloat16, device=device),
                torch.empty((tokens, self.row), dtype=torch.bfloat16, device=device),
            )
        return self.rooms[tokens]

    def run(self, tokens, router, network, experts, top_k):
        self.calls += 1
        kernels, shared, stream = extension(), self.shared, torch.cuda.current_stream().cuda_stream
        count = tokens.shape[0]
        shares, products, hidden = self.room(count)
        if experts > KERNEL_EXPERTS and count:
            route(tokens, router, experts, top_k, shares)
        kernels.share(
            [address(module.weight) for module in network] + [address(module.bias) for module in network], self.inner,
            [tokens.data_ptr(), *map(address, router), shares.data_ptr()], [count, self.size, experts, top_k],
            shared.bases, self.places, self.epochs.data_ptr(), shared.rank, self.BLOCKS, stream,
        )
        if not count:
            return torch.empty_like(tokens)
        to_hidden, to_tokens, bias = self.turns[self.calls % 2]
        torch.mm(tokens, to_hidden, out=products)
        kernels.weigh(
            products.data_ptr(), bias, shares.data_ptr(), hidden.data_ptr(), count, self.inner, shared.world, stream
        )
        return torch.mm(hidden, to_tokens)


class Dispatching:
    """Rows that came from all ranks, and results that they read.

    Every rank waits for all others twice in a call, for their rows and for their results; so rows are written only when
    their owner has ended the call before, and results only when all homes have. The area of rows and results has room
    for `capacity` tokens of every rank; where one has more, all ranks make a larger area and begin again.
    """

    def __init__(self, size):
        self.size = size
        self.shared = self.area = Symmetric(HEADER)
        self.capacity = self.results = 0
        device = self.shared.memory.device
        self.firsts = torch.empty(self.shared.world, dtype=torch.int32, device=device)
        self.epochs = torch.zeros(1, dtype=torch.int32, device=device)
        self.received = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self.is_counted = torch.cuda.Event()
        self.rooms = {}
        self.epoch = 0

    def room(self, tokens):
        """This rank's shares and places for so many tokens."""
        if tokens not in self.rooms:
            device, shape = self.shared.memory.device, (tokens, self.shared.world)
            self.rooms[tokens] = (
                torch.empty(shape, dtype=torch.float32, device=device),
                torch.empty(shape, dtype=torch.int32, device=device),
            )
        return self.rooms[tokens]

    def grow(self, capacity):
        """Room for so many tokens of every rank, in the same call on all ranks; none uses the old area any more."""
        area = self.shared.world * capacity * self.size * 2
        self.area, self.capacity, self.results = Symmetric(2 * area), capacity, area

    def run(self, tokens, router, network, experts, top_k):
        kernels, stream = extension(), torch.cuda.current_stream().cuda_stream
        count = tokens.shape[0]
        shares, places = self.room(count)
        if experts > KERNEL_EXPERTS and count:
            route(tokens, router, experts, top_k, shares)
        routing = [tokens.data_ptr(), *map(address, router), shares.data_ptr()]
        self.send(tokens, routing, [count, self.size, experts, top_k], places, stream)
        out = torch.empty_like(tokens)
        self.is_counted.synchronize()
        if int(self.received[0]) < 0:
            self.grow(-int(self.received[0]))
            self.send(tokens, routing, [count, self.size, experts, top_k], places, stream)
            self.is_counted.synchronize()
        self.compute(int(self.received[0]), network, stream)
        self.meet(1, stream)
        kernels.gather(
            out.data_ptr(), shares.data_ptr(), places.data_ptr(), self.firsts.data_ptr(), self.area.bases,
            self.results, count, self.size, stream,
        )
        return out

    def send(self, tokens, routing, sizes, places, stream):
        """Route the tokens, exchange counts and push rows; `received` then says how many came, once `is_counted`."""
        self.epoch += 1
        kernels, shared = extension(), self.shared
        kernels.dispatch(
            routing, sizes, shared.bases, places.data_ptr(), self.firsts.data_ptr(), self.received.data_ptr(),
            self.epochs.data_ptr(), self.capacity, shared.rank, stream,
        )
        self.is_counted.record()
        kernels.push(
            tokens.data_ptr(), places.data_ptr(), self.firsts.data_ptr(), self.area.bases, 0, sizes[0], self.size,
            stream,
        )
        self.meet(0, stream)

    def meet(self, kind, stream):
        """Tell all ranks that this one's rows (0) or results (1) are written, and wait for theirs."""
        shared = self.shared
        others = [peer for peer in range(shared.world) if peer != shared.rank]
        word = 4 * kind * shared.world
        extension().raise_flags([shared.bases[peer] + word + 4 * shared.rank for peer in others], self.epoch, stream)
        extension().await_flags([shared.bases[shared.rank] + word + 4 * peer for peer in others], self.epoch, stream)

    def compute(self, count, network, stream):
        if not count:
            return
        gate, up, down = network
        rows = self.area.view(0, (count, self.size))
        hidden = product(rows, gate)
        extension().gate(hidden.data_ptr(), product(rows, up).data_ptr(), hidden.numel(), stream)
        product(hidden, down, out=self.area.view(self.results, (count, self.size)))


def product(rows, module, out=None):
    if module.bias is None:
        return torch.mm(rows, module.weight.t(), out=out)
    return torch.addmm(module.bias, rows, module.weight.t(), out=out)


@functools.cache
def state(size, inner):
    """What all ranks make in the same call: it may depend on nothing that differs between them."""
    return Travelling(size, inner) if inner <= SMALL_INNER else Dispatching(size)


def solution(
    hidden_states, gate_weight, gate_bias, gate_proj, up_proj, down_proj, num_experts, top_k, group=None
):
    size = hidden_states.shape[1]
    inner = gate_proj.weight.shape[0]
    if hidden_states.dtype != torch.bfloat16 or size % 8 or inner % 8:
        raise ValueError(f"written for bfloat16 and sizes in eights, not {hidden_states.dtype}, {size} and {inner}")
    network = (gate_proj, up_proj, down_proj)
    return state(size, inner).run(
        hidden_states.contiguous(), (gate_weight, gate_bias), network, num_experts, top_k
    )
