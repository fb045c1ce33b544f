"""Hyena over ranks: x2 * v is sent to the channels' owners, convolved there by transforms, and gated back at home.

Only two of the four streams travel. Two channels make one complex signal; its transform of N = N1 * N2 points is taken
as columns of N1 and rows of N2 in float32, so it passes through device memory twice, without the zeros:

    spread    u = x2 * v into the owner's symmetric memory, in the order of the sequence
    columns   of filters and, after the ranks have met, of u
    rows      of both, their product channel by channel, and the rows of the inverse
    finish    columns of the inverse, bias * u, rounding: y in symmetric memory
    gate      after another meeting: y from its owners times x1, channels last
"""

import functools

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from utils.cuda_helpers import compile_cuda_extension

FLAG_BYTES = 1024
LEAST_POINTS, MOST_POINTS = 1 << 12, 1 << 18

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
constexpr int kSpreadThreads = 256;
constexpr int kUnroll = 4;
constexpr int kColumnThreads = 512;
constexpr int kRowThreads = 128;
constexpr int kTile = 64;  // channels and positions of a block of `gate`
constexpr int kGateThreads = 256;
using Half = __nv_bfloat16;

struct Peers { char* base[kMaxRanks]; };

// Rank R holds positions of chunks R and 2W-1-R (in zigzag) of 2W chunks, and convolves channels from R*own_channels.
struct Shape {
    int batch, channels, own_channels, half;  // half: positions of one chunk
    int rank, world;
    bool zigzag;

    __host__ __device__ int positions() const { return 2 * half; }
    __host__ __device__ int length() const { return 2 * half * world; }
    __device__ int chunk(int which) const {
        if (zigzag) return which ? 2 * world - 1 - rank : rank;
        return 2 * rank + which;
    }
};

__device__ __forceinline__ void store_release(uint32_t* address, uint32_t value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

__device__ __forceinline__ uint32_t load_acquire(const uint32_t* address) {
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

// Says that the kernels before this one have ended here; one block does so.
__device__ __forceinline__ void arrive(const Peers& peers, int rank, int world, uint32_t epoch) {
    if (threadIdx.x < world) store_release(reinterpret_cast<uint32_t*>(peers.base[threadIdx.x]) + rank, epoch);
}

__device__ __forceinline__ void await(const Peers& peers, int rank, int world, uint32_t epoch) {
    if (threadIdx.x < world) {
        const uint32_t* flag = reinterpret_cast<const uint32_t*>(peers.base[rank]) + threadIdx.x;
        while (static_cast<int32_t>(load_acquire(flag) - epoch) < 0) {}
    }
    __syncthreads();
}

__device__ __forceinline__ uint4 product(const uint4& a, const uint4& b) {
    uint4 result;
    const auto* x = reinterpret_cast<const __nv_bfloat162*>(&a);
    const auto* y = reinterpret_cast<const __nv_bfloat162*>(&b);
    auto* z = reinterpret_cast<__nv_bfloat162*>(&result);
#pragma unroll
    for (int w = 0; w < 4; ++w) z[w] = __hmul2(x[w], y[w]);
    return result;
}

__device__ __forceinline__ Half product(Half a, Half b) { return __hmul(a, b); }

// --- complex numbers and transforms ---------------------------------------------------------------------------------

__device__ __forceinline__ float2 operator+(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
__device__ __forceinline__ float2 operator-(float2 a, float2 b) { return {a.x - b.x, a.y - b.y}; }
__device__ __forceinline__ float2 operator*(float2 a, float2 b) {
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
__device__ __forceinline__ float2 operator*(float s, float2 a) { return {s * a.x, s * a.y}; }
__device__ __forceinline__ float2 conjugate(float2 a) { return {a.x, -a.y}; }
__device__ __forceinline__ float2 times_i(float2 a) { return {-a.y, a.x}; }

// exp(-2 pi i turn), or its conjugate for the inverse; 0 <= turn < 1.
template <bool kInverse>
__device__ __forceinline__ float2 root(float turn) {
    float2 w;
    __sincosf((turn < 0.5f ? turn : turn - 1) * 6.283185307179586f, &w.y, &w.x);
    return kInverse ? w : conjugate(w);
}

template <bool kInverse>
__device__ __forceinline__ void butterfly2(float2& a, float2& b) {
    const float2 difference = a - b;
    a = a + b;
    b = difference;
}

template <bool kInverse>
__device__ __forceinline__ void butterfly4(float2& a, float2& b, float2& c, float2& d) {
    const float2 s0 = a + c, s1 = a - c, s2 = b + d, turned = times_i(b - d);
    a = s0 + s2;
    c = s0 - s2;
    b = kInverse ? s1 + turned : s1 - turned;
    d = kInverse ? s1 - turned : s1 + turned;
}

template <bool kInverse>
__device__ __forceinline__ void butterfly8(float2 (&v)[8]) {
    constexpr float kRoot = 0.70710678118654752f;
    butterfly4<kInverse>(v[0], v[2], v[4], v[6]);
    butterfly4<kInverse>(v[1], v[3], v[5], v[7]);
    constexpr float kSign = kInverse ? 1 : -1;
    const float2 odd[4] = {v[1], kRoot * float2{v[3].x - kSign * v[3].y, v[3].y + kSign * v[3].x},
                           kSign * times_i(v[5]), kRoot * float2{-v[7].x - kSign * v[7].y, kSign * v[7].x - v[7].y}};
    const float2 even[4] = {v[0], v[2], v[4], v[6]};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        v[k] = even[k] + odd[k];
        v[k + 4] = even[k] - odd[k];
    }
}

template <int kCount>
__device__ __forceinline__ void twiddle(float2 (&v)[8], int first, int step, float2 w) {
    float2 power = w;
#pragma unroll
    for (int r = 1; r < kCount; ++r) {
        v[first + r * step] = v[first + r * step] * power;
        power = power * w;
    }
}

// One hole after every 8 elements keeps the strides of the transforms apart in shared memory.
__host__ __device__ constexpr int padded(int index) { return index + index / 8; }

template <int kSize, int kStride>
__device__ __forceinline__ void redistribute(float2 (&v)[8], float2* shared, int t, int first, int step) {
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 8; ++r) shared[padded(first + r * step) * kStride] = v[r];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = shared[padded(t + i * (kSize / 8)) * kStride];
}

// The transform of kSize = 64, 128, 256 or 512 points, not scaled, by kSize / 8 threads. Thread t holds points
// t + i * kSize / 8 before and after. All threads of the block must call it. Element i lies at padded(i) * kStride.
template <int kSize, int kStride, bool kInverse>
__device__ __forceinline__ void transform(float2 (&v)[8], float2* shared, int t) {
    butterfly8<kInverse>(v);
    redistribute<kSize, kStride>(v, shared, t, t * 8, 1);
    twiddle<8>(v, 0, 1, root<kInverse>((t % 8) / 64.0f));
    butterfly8<kInverse>(v);
    if constexpr (kSize > 64) {
        redistribute<kSize, kStride>(v, shared, t, t / 8 * 64 + t % 8, 8);
        constexpr int kRadix = kSize / 64, kButterflies = 8 / kRadix;
#pragma unroll
        for (int q = 0; q < kButterflies; ++q) {
            const float2 w = root<kInverse>((t + q * (kSize / 8)) * (1.0f / kSize));
            twiddle<kRadix>(v, q, kButterflies, w);
            if constexpr (kRadix == 2) butterfly2<kInverse>(v[q], v[q + 4]);
            if constexpr (kRadix == 4) butterfly4<kInverse>(v[q], v[q + 2], v[q + 4], v[q + 6]);
            if constexpr (kRadix == 8) butterfly8<kInverse>(v);
        }
    }
}

// --- the five kernels -----------------------------------------------------------------------------------------------

// `spread` and `gate` move a Vector at a time: a uint4, or a single Half where chunks are no multiple of 8 positions.
// There eight of them may lie in two chunks, and chunks begin at addresses to which no uint4 is aligned.
template <class Vector>
constexpr int kHalves = sizeof(Vector) / sizeof(Half);

template <class Vector>
__global__ void __launch_bounds__(kSpreadThreads) spread(
    const Half* x2, const Half* v, const __grid_constant__ Peers peers, int64_t offset, Shape shape) {
    constexpr int kWidth = kHalves<Vector>;
    const int vectors = shape.positions() / kWidth, half = shape.half / kWidth, length = shape.length() / kWidth;
    // Every rank starts with its own channels, so that not all send to the same rank at a time.
    const int channel = (blockIdx.y + shape.rank * shape.own_channels) % shape.channels;
    const int owner = channel / shape.own_channels;
    const int64_t source = (static_cast<int64_t>(blockIdx.z) * shape.channels + channel) * vectors;
    const int64_t row = static_cast<int64_t>(blockIdx.z) * shape.own_channels + channel % shape.own_channels;
    Vector* target = reinterpret_cast<Vector*>(peers.base[owner] + offset) + row * length;
    const int first = blockIdx.x * kUnroll * kSpreadThreads + threadIdx.x;
    Vector left[kUnroll], right[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
        const int i = first + u * kSpreadThreads;
        if (i < vectors) {
            left[u] = __ldcs(reinterpret_cast<const Vector*>(x2) + source + i);
            right[u] = __ldcs(reinterpret_cast<const Vector*>(v) + source + i);
        }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
        const int i = first + u * kSpreadThreads;
        if (i < vectors) target[shape.chunk(i >= half) * half + (i >= half ? i - half : i)] = product(left[u], right[u]);
    }
}

// A column is every n2-th point of a signal. Pairs of filters come first, then pairs of channels of u.
template <int kSize>
__global__ void __launch_bounds__(kColumnThreads, 2) columns(
    const Half* filters, int taps, int group_channels, const Half* u, float2* filter_points, float2* points, int rows,
    const __grid_constant__ Peers peers, uint32_t epoch, Shape shape) {
    constexpr int kColumns = kColumnThreads * 8 / kSize;
    __shared__ float2 shared[padded(kSize) * kColumns];
    if (blockIdx.x == 0 && blockIdx.y == 0) arrive(peers, shape.rank, shape.world, epoch);
    const int filter_pairs = shape.own_channels / 2;
    const bool is_filter = blockIdx.y < filter_pairs;
    const int pair = is_filter ? blockIdx.y : blockIdx.y - filter_pairs;
    if (!is_filter) await(peers, shape.rank, shape.world, epoch);
    const int column = threadIdx.x % kColumns, t = threadIdx.x / kColumns;
    const int n2 = blockIdx.x * kColumns + column;
    const int length = is_filter ? taps : shape.length();
    const Half *first = u + 2 * static_cast<int64_t>(pair) * length, *second = first + length;
    if (is_filter) {
        const int channel = shape.rank * shape.own_channels + 2 * pair;
        first = filters + static_cast<int64_t>(channel / group_channels) * taps;
        second = filters + static_cast<int64_t>((channel + 1) / group_channels) * taps;
    }
    float2 v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int n = (t + i * (kSize / 8)) * rows + n2;
        v[i] = n < length ? float2{__bfloat162float(first[n]), __bfloat162float(second[n])} : float2{0, 0};
    }
    transform<kSize, kColumns, false>(v, shared + column, t);
    float2* target = (is_filter ? filter_points : points) + static_cast<int64_t>(pair) * kSize * rows + n2;
#pragma unroll
    for (int i = 0; i < 8; ++i) target[(t + i * (kSize / 8)) * rows] = v[i];
}

// Of two real signals a and b with transform z of a + ib: their transforms' values where z is `here`, and `there` at
// the negative frequency.
__device__ __forceinline__ void unpack(float2 here, float2 there, float2& a, float2& b) {
    a = 0.5f * (here + conjugate(there));
    b = -0.5f * times_i(here - conjugate(there));
}

// Rows k1 and N1 - k1 hold each other's negative frequencies; rows 0 and N1 / 2 hold their own and share a block.
template <int kSize>
__global__ void __launch_bounds__(kRowThreads) multiply(
    const float2* filter_points, float2* points, int columns, int pairs, int filter_pairs) {
    constexpr int kLanes = kSize / 8, kPairs = kRowThreads / (2 * kLanes);
    __shared__ float2 shared_u[kPairs][2][padded(kSize)], shared_h[kPairs][2][padded(kSize)];
    const int t = threadIdx.x % kLanes, which = threadIdx.x / kLanes % 2, place = threadIdx.x / (2 * kLanes);
    const int pair = blockIdx.y * kPairs + place;
    const bool is_there = pair < pairs;
    const int both = blockIdx.x;
    const int k1 = which == 0 ? both : both == 0 ? columns / 2 : columns - both;
    const float scale = 1.0f / (static_cast<float>(columns) * kSize);
    const float2* filter_row = filter_points + (static_cast<int64_t>(pair % filter_pairs) * columns + k1) * kSize + t;
    float2* row = points + (static_cast<int64_t>(pair) * columns + k1) * kSize + t;
    float2 u[8], h[8], turn[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        u[i] = is_there ? row[i * kLanes] : float2{0, 0};
        h[i] = is_there ? filter_row[i * kLanes] : float2{0, 0};
    }
    const float2 step = root<false>(k1 * kLanes * scale);
    turn[0] = root<false>(k1 * t * scale);
#pragma unroll
    for (int i = 1; i < 8; ++i) turn[i] = turn[i - 1] * step;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        u[i] = u[i] * turn[i];
        h[i] = h[i] * turn[i];
    }
    transform<kSize, 1, false>(u, shared_u[place][which], t);
    transform<kSize, 1, false>(h, shared_h[place][which], t);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        shared_u[place][which][padded(t + i * kLanes)] = u[i];
        shared_h[place][which][padded(t + i * kLanes)] = h[i];
    }
    __syncthreads();
    const int other = both == 0 ? which : 1 - which;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int k2 = t + i * kLanes;
        const int negative = padded(k1 == 0 ? (kSize - k2) % kSize : kSize - 1 - k2);
        float2 u_a, u_b, h_a, h_b;
        unpack(u[i], shared_u[place][other][negative], u_a, u_b);
        unpack(h[i], shared_h[place][other][negative], h_a, h_b);
        u[i] = scale * (u_a * h_a + times_i(u_b * h_b));
    }
    transform<kSize, 1, true>(u, shared_u[place][which], t);
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (is_there) row[i * kLanes] = u[i] * conjugate(turn[i]);
}

template <int kSize>
__global__ void __launch_bounds__(kColumnThreads, 2) finish(
    const float2* points, const Half* u, const Half* bias, Half* y, int rows, Shape shape) {
    constexpr int kColumns = kColumnThreads * 8 / kSize;
    __shared__ float2 shared[padded(kSize) * kColumns];
    const int pair = blockIdx.y;
    const int column = threadIdx.x % kColumns, t = threadIdx.x / kColumns;
    const int n2 = blockIdx.x * kColumns + column;
    const float2* source = points + static_cast<int64_t>(pair) * kSize * rows + n2;
    float2 v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = source[(t + i * (kSize / 8)) * rows];
    transform<kSize, kColumns, true>(v, shared + column, t);
    const int channel = shape.rank * shape.own_channels + 2 * pair % shape.own_channels;
    const float bias_a = __bfloat162float(bias[channel]), bias_b = __bfloat162float(bias[channel + 1]);
    const int length = shape.length();
    const int64_t start = 2 * static_cast<int64_t>(pair) * length;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int n = (t + i * (kSize / 8)) * rows + n2;
        if (n < length) {
            const int64_t a = start + n, b = a + length;
            y[a] = __float2bfloat16_rn(v[i].x + bias_a * __bfloat162float(u[a]));
            y[b] = __float2bfloat16_rn(v[i].y + bias_b * __bfloat162float(u[b]));
        }
    }
}

// A tile of 64 channels and 64 positions, read along positions and written along channels. A thread takes 8 positions
// of two channels: every eighth vector of their rows.
template <class Vector>
__global__ void __launch_bounds__(kGateThreads) gate(
    const Half* x1, __nv_bfloat162* z, const __grid_constant__ Peers peers, int64_t offset, uint32_t epoch,
    Shape shape) {
    constexpr int kWords = kTile / 2, kWidth = kHalves<Vector>, kVectors = 8 / kWidth, kStep = 8 * kWidth;
    __shared__ __nv_bfloat162 tile[kTile][kWords + 1];
    if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0) arrive(peers, shape.rank, shape.world, epoch);
    // Tiles of all owners by turns, beginning with the rank's own.
    const int tiles = gridDim.y, turn = blockIdx.y;
    const int place = tiles % shape.world
                          ? turn
                          : (turn % shape.world + shape.rank) % shape.world * (tiles / shape.world) + turn / shape.world;
    const int positions = shape.positions(), length = shape.length();
    const int start = blockIdx.x * kTile + threadIdx.x % 8 * kWidth;
    const int channel = place * kTile + threadIdx.x / 8 * 2;
    Vector gates[2][kVectors], values[2];
    const Half* source = x1 + (static_cast<int64_t>(blockIdx.z) * shape.channels + channel) * positions + start;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        if (start + i * kStep < positions && channel < shape.channels) {
            gates[0][i] = __ldcs(reinterpret_cast<const Vector*>(source + i * kStep));
            gates[1][i] = __ldcs(reinterpret_cast<const Vector*>(source + i * kStep + positions));
        }
    }
    await(peers, shape.rank, shape.world, epoch);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        const int position = start + i * kStep;
        if (position < positions && channel < shape.channels) {
            const int late = position >= shape.half;
            const int64_t row = static_cast<int64_t>(blockIdx.z) * shape.own_channels + channel % shape.own_channels;
            const Half* y = reinterpret_cast<const Half*>(peers.base[channel / shape.own_channels] + offset) +
                            row * length + shape.chunk(late) * shape.half + position - late * shape.half;
            values[0] = *reinterpret_cast<const Vector*>(y);
            values[1] = *reinterpret_cast<const Vector*>(y + length);
            const Vector a = product(gates[0][i], values[0]), b = product(gates[1][i], values[1]);
            const auto* first = reinterpret_cast<const Half*>(&a);
            const auto* second = reinterpret_cast<const Half*>(&b);
#pragma unroll
            for (int k = 0; k < kWidth; ++k)
                tile[(threadIdx.x % 8 + i * 8) * kWidth + k][threadIdx.x / 8] = __halves2bfloat162(first[k], second[k]);
        }
    }
    __syncthreads();
    const int word = threadIdx.x % kWords;
    if (place * kTile + 2 * word >= shape.channels) return;
    for (int l = threadIdx.x / kWords; l < kTile && blockIdx.x * kTile + l < positions; l += kGateThreads / kWords) {
        const int64_t row = static_cast<int64_t>(blockIdx.z) * positions + blockIdx.x * kTile + l;
        z[row * (shape.channels / 2) + place * kWords + word] = tile[l][word];
    }
}

// --- from the host --------------------------------------------------------------------------------------------------

struct Layer {
    const Half *filters, *bias, *u;
    Half* y;
    float2 *filter_points, *points;
    int taps, group_channels;
};

template <int kColumnSize, int kRowSize>
void convolve(const Layer& layer, const Shape& shape, const Peers& peers, uint32_t epoch, cudaStream_t stream) {
    const unsigned filter_pairs = shape.own_channels / 2, pairs = shape.batch * filter_pairs;
    const unsigned blocks = kRowSize / (kColumnThreads * 8 / kColumnSize);
    constexpr unsigned kPairs = kRowThreads / (kRowSize / 4);
    columns<kColumnSize><<<dim3(blocks, filter_pairs + pairs), kColumnThreads, 0, stream>>>(
        layer.filters, layer.taps, layer.group_channels, layer.u, layer.filter_points, layer.points, kRowSize, peers,
        epoch, shape);
    multiply<kRowSize><<<dim3(kColumnSize / 2, (pairs + kPairs - 1) / kPairs), kRowThreads, 0, stream>>>(
        layer.filter_points, layer.points, kColumnSize, pairs, filter_pairs);
    finish<kColumnSize><<<dim3(blocks, pairs), kColumnThreads, 0, stream>>>(
        layer.points, layer.u, layer.bias, layer.y, kRowSize, shape);
}

void hyena(int64_t x1, int64_t x2, int64_t v, int64_t filters, int64_t bias, int64_t filter_points, int64_t points,
           int64_t z, const std::vector<int64_t>& bases, int64_t u_offset, int64_t y_offset,
           const std::vector<int>& sizes, int rank, bool zigzag, int point_count, int64_t call, int64_t stream_address) {
    Peers peers{};
    const int world = static_cast<int>(bases.size());
    if (world > kMaxRanks) throw std::runtime_error("written for at most 8 ranks");
    for (int peer = 0; peer < world; ++peer) peers.base[peer] = reinterpret_cast<char*>(bases[peer]);
    const int batch = sizes.at(0), channels = sizes.at(1), positions = sizes.at(2);
    const Shape shape{batch, channels, channels / world, positions / 2, rank, world, zigzag};
    const Layer layer{reinterpret_cast<const Half*>(filters),
                      reinterpret_cast<const Half*>(bias),
                      reinterpret_cast<const Half*>(peers.base[rank] + u_offset),
                      reinterpret_cast<Half*>(peers.base[rank] + y_offset),
                      reinterpret_cast<float2*>(filter_points),
                      reinterpret_cast<float2*>(points),
                      sizes.at(3),
                      sizes.at(4)};
    const auto stream = reinterpret_cast<cudaStream_t>(stream_address);
    const auto epoch = static_cast<uint32_t>(2 * call);
    const bool wide = shape.half % 8 == 0;
    const unsigned vectors = wide ? positions / 8 : positions;
    const unsigned strips = (vectors + kUnroll * kSpreadThreads - 1) / (kUnroll * kSpreadThreads);
    const auto send = wide ? spread<uint4> : spread<Half>;
    send<<<dim3(strips, channels, batch), kSpreadThreads, 0, stream>>>(
        reinterpret_cast<const Half*>(x2), reinterpret_cast<const Half*>(v), peers, u_offset, shape);
    switch (point_count) {
        case 1 << 12: convolve<64, 64>(layer, shape, peers, epoch, stream); break;
        case 1 << 13: convolve<128, 64>(layer, shape, peers, epoch, stream); break;
        case 1 << 14: convolve<128, 128>(layer, shape, peers, epoch, stream); break;
        case 1 << 15: convolve<256, 128>(layer, shape, peers, epoch, stream); break;
        case 1 << 16: convolve<256, 256>(layer, shape, peers, epoch, stream); break;
        case 1 << 17: convolve<512, 256>(layer, shape, peers, epoch, stream); break;
        case 1 << 18: convolve<512, 512>(layer, shape, peers, epoch, stream); break;
        default: throw std::runtime_error("no transform of " + std::to_string(point_count) + " points");
    }
    const auto receive = wide ? gate<uint4> : gate<Half>;
    receive<<<dim3((positions + kTile - 1) / kTile, (channels + kTile - 1) / kTile, batch), kGateThreads, 0, stream>>>(
        reinterpret_cast<const Half*>(x1), reinterpret_cast<__nv_bfloat162*>(z), peers, y_offset, epoch + 1, shape);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) throw std::runtime_error(std::string("launch: ") + cudaGetErrorString(error));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("hyena", &hyena); }
"""


@functools.cache
def extension():
    return compile_cuda_extension("hyena_two_streams", CUDA)


class Exchange:
    """Symmetric memory for one shape: flags, u and y of the rank's own channels, all positions.

    One copy of each is enough: u is written again after the meeting that follows its last use, and y likewise.
    """

    def __init__(self, elements, group):
        device = torch.device("cuda", torch.cuda.current_device())
        stream_bytes = -(-2 * elements // 256) * 256
        self.u_offset, self.y_offset = FLAG_BYTES, FLAG_BYTES + stream_bytes
        self.memory = symm_mem.empty(FLAG_BYTES + 2 * stream_bytes, dtype=torch.uint8, device=device)
        self.memory.zero_()
        self.handle = symm_mem.rendezvous(self.memory, group)
        world = self.handle.world_size
        self.bases = [self.handle.get_buffer(peer, (1,), torch.uint8).data_ptr() for peer in range(world)]
        self.calls = 0
        torch.cuda.synchronize()
        dist.barrier(group)  # no flag may be raised before every rank has cleared its own


@functools.cache
def exchange(elements, group):
    return Exchange(elements, group)


def transform_points(length, taps):
    """The least power of two at which the wrapped end of the convolution stays clear of the first `length` points."""
    points = max(LEAST_POINTS, 1 << (length + min(length, taps) - 2).bit_length())
    if points > MOST_POINTS:
        raise ValueError(f"{length} positions and {taps} taps: written for transforms of up to {MOST_POINTS} points")
    return points


def solution(
    x1_seq, x2_seq, v_seq, h, conv_bias, num_groups, group_dim, group=None, with_zigzag_splitting=True
):
    group = group or dist.group.WORLD
    batch, channels, positions = x1_seq.shape
    world = dist.get_world_size(group)
    if x1_seq.dtype != torch.bfloat16 or positions % 2 or channels % (2 * world):
        raise ValueError(
            f"streams are {x1_seq.dtype}, {channels} channels, {positions} positions: written for bfloat16, "
            f"multiples of {2 * world} channels and of 2 positions"
        )
    taps = h[:, : positions * world]  # later ones meet no position
    x1, x2, v, filters, bias = (tensor.contiguous() for tensor in (x1_seq, x2_seq, v_seq, taps, conv_bias))
    state = exchange(x1.numel(), group)
    state.calls += 1
    points = transform_points(positions * world, filters.shape[1])
    filter_pairs = channels // world // 2
    filter_points = torch.empty(filter_pairs, points, 2, dtype=torch.float32, device=x1.device)
    pair_points = torch.empty(batch * filter_pairs, points, 2, dtype=torch.float32, device=x1.device)
    z = torch.empty(batch, positions, channels, dtype=x1.dtype, device=x1.device)
    extension().hyena(
        x1.data_ptr(), x2.data_ptr(), v.data_ptr(), filters.data_ptr(), bias.data_ptr(), filter_points.data_ptr(),
        pair_points.data_ptr(), z.data_ptr(), state.bases, state.u_offset, state.y_offset,
        [batch, channels, positions, filters.shape[1], group_dim], state.handle.rank, with_zigzag_splitting, points,
        state.calls, torch.cuda.current_stream().cuda_stream,
    )
    return z
