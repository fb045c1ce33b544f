"""Next form, not yet run on GPUs.

Hyena over ranks: x2 * v is sent to the channels' owners, convolved there by transforms, and gated back at home.

Only two of the four streams travel. Two channels make one complex signal; its transform of N = N1 * N2 points is taken
as columns of N1 and rows of N2 in float32, so it passes through device memory twice, without the zeros:

    spread    u = x2 * v into the owner's symmetric memory, in the order of the sequence; meanwhile columns of the
              filters and, after the ranks have met, of u
    multiply  rows of both, their product channel by channel, and the rows of the inverse
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
constexpr int kUnroll = 4;
constexpr int kColumnThreads = 512;
constexpr int kSpreadVectors = kUnroll * kColumnThreads;  // of 16 bytes, sent by one block
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

// Says that this rank's part is done; one block does so.
__device__ __forceinline__ void arrive(const Peers& peers, int rank, int world, uint32_t epoch) {
    if (threadIdx.x < world) store_release(reinterpret_cast<uint32_t*>(peers.base[threadIdx.x]) + rank, epoch);
}

// The same after the last of `blocks` blocks, which is not known beforehand.
__device__ __forceinline__ void arrive_last(
    const Peers& peers, int rank, int world, uint32_t epoch, unsigned* done, unsigned blocks) {
    __shared__ bool is_last;
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = atomicAdd(done, 1u) == blocks - 1;
        if (is_last) *done = 0;
        __threadfence_system();
    }
    __syncthreads();
    if (is_last) arrive(peers, rank, world, epoch);
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

// --- the four kernels ------------------------------------------------------------------------------------------------

// What the first kernel does, by blocks: sending u and columns of filters by turns, then what is left of either, and last
// columns of u, which wait for all ranks and so must not come before anything that sends.
struct Work { unsigned sends, filters, strips; };  // numbers of blocks; strips: blocks per pair of channels

struct Source {
    const uint4 *x2, *v;
    const Half *filters, *u;
    int taps, group_channels;
};

__device__ __forceinline__ void spread(const Source& source, const Peers& peers, int64_t offset, const Shape& shape,
                                       unsigned block) {
    const unsigned vectors = shape.positions() / 8, half = shape.half / 8;
    const unsigned own = shape.own_channels, channels = shape.channels, total = shape.batch * channels * vectors;
    uint4 sent[kUnroll];
    uint4* target[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const unsigned place = block * kSpreadVectors + i * kColumnThreads + threadIdx.x;
        target[i] = nullptr;
        if (place >= total) continue;
        const unsigned row = place / vectors, vector = place % vectors, batch = row / channels;
        // Every rank starts with its own channels, so that not all send to the same rank at a time.
        const unsigned channel = (row % channels + shape.rank * own) % channels;
        const int64_t from = static_cast<int64_t>(batch * channels + channel) * vectors + vector;
        const int64_t to = static_cast<int64_t>(batch * own + channel % own) * (shape.length() / 8) +
                           shape.chunk(vector >= half) * half + (vector >= half ? vector - half : vector);
        sent[i] = product(__ldcs(source.x2 + from), __ldcs(source.v + from));
        target[i] = reinterpret_cast<uint4*>(peers.base[channel / own] + offset) + to;
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i)
        if (target[i]) *target[i] = sent[i];
}

// A column is every n2-th point of a signal.
template <int kSize>
__global__ void __launch_bounds__(kColumnThreads, 3) columns(
    Source source, float2* filter_points, float2* points, int rows, Work work, unsigned* done,
    const __grid_constant__ Peers peers, int64_t offset, uint32_t epoch, Shape shape) {
    constexpr int kColumns = kColumnThreads * 8 / kSize;
    __shared__ float2 shared[padded(kSize) * kColumns];
    const unsigned turns = min(work.sends, work.filters), last_send = turns + work.sends;
    const bool is_turn = blockIdx.x < 2 * turns;
    if (is_turn ? blockIdx.x % 2 == 0 : blockIdx.x < last_send) {
        spread(source, peers, offset, shape, is_turn ? blockIdx.x / 2 : blockIdx.x - turns);
        arrive_last(peers, shape.rank, shape.world, epoch, done, work.sends);
        return;
    }
    unsigned block = is_turn ? blockIdx.x / 2 : blockIdx.x - work.sends;
    const bool is_filter = block < work.filters;
    if (!is_filter) {
        block -= work.filters;
        await(peers, shape.rank, shape.world, epoch);
    }
    const int pair = block / work.strips;
    const int column = threadIdx.x % kColumns, t = threadIdx.x / kColumns;
    const int n2 = block % work.strips * kColumns + column;
    const int length = is_filter ? source.taps : shape.length();
    const Half *first = source.u + 2 * static_cast<int64_t>(pair) * length, *second = first + length;
    if (is_filter) {
        const int channel = shape.rank * shape.own_channels + 2 * pair;
        first = source.filters + static_cast<int64_t>(channel / source.group_channels) * length;
        second = source.filters + static_cast<int64_t>((channel + 1) / source.group_channels) * length;
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
__global__ void __launch_bounds__(kColumnThreads, 3) finish(
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

// A tile of 64 channels and 64 positions, read along positions and written along channels.
__global__ void __launch_bounds__(kGateThreads) gate(
    const Half* x1, __nv_bfloat162* z, const __grid_constant__ Peers peers, int64_t offset, uint32_t epoch,
    Shape shape) {
    constexpr int kWords = kTile / 2;
    __shared__ __nv_bfloat162 tile[kTile][kWords + 1];
    if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0) arrive(peers, shape.rank, shape.world, epoch);
    // Tiles of all owners by turns, beginning with the rank's own.
    const int tiles = gridDim.y, turn = blockIdx.y;
    const int place = tiles % shape.world
                          ? turn
                          : (turn % shape.world + shape.rank) % shape.world * (tiles / shape.world) + turn / shape.world;
    const int positions = shape.positions(), length = shape.length();
    const int position = blockIdx.x * kTile + threadIdx.x % 8 * 8;
    const int channel = place * kTile + threadIdx.x / 8 * 2;
    const bool is_there = position < positions && channel < shape.channels;
    uint4 gates[2], values[2];
    const Half* source = x1 + (static_cast<int64_t>(blockIdx.z) * shape.channels + channel) * positions + position;
    if (is_there) {
        gates[0] = __ldcs(reinterpret_cast<const uint4*>(source));
        gates[1] = __ldcs(reinterpret_cast<const uint4*>(source + positions));
    }
    await(peers, shape.rank, shape.world, epoch);
    if (is_there) {
        const int late = position >= shape.half;
        const int64_t row = static_cast<int64_t>(blockIdx.z) * shape.own_channels + channel % shape.own_channels;
        const Half* y = reinterpret_cast<const Half*>(peers.base[channel / shape.own_channels] + offset) +
                        row * length + shape.chunk(late) * shape.half + position - late * shape.half;
        values[0] = *reinterpret_cast<const uint4*>(y);
        values[1] = *reinterpret_cast<const uint4*>(y + length);
        const uint4 a = product(gates[0], values[0]), b = product(gates[1], values[1]);
        const auto* first = reinterpret_cast<const Half*>(&a);
        const auto* second = reinterpret_cast<const Half*>(&b);
#pragma unroll
        for (int k = 0; k < 8; ++k)
            tile[threadIdx.x % 8 * 8 + k][threadIdx.x / 8] = __halves2bfloat162(first[k], second[k]);
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

void check_launch() {
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) throw std::runtime_error(std::string("launch: ") + cudaGetErrorString(error));
}

// One shape, its symmetric memory (flags, u and y) and its transforms. One u and one y are enough: either is written
// again only after the meeting that follows its last use.
class Plan {
  public:
    Plan(const std::vector<int64_t>& bases, int64_t u_offset, int64_t y_offset, int64_t filter_points, int64_t points,
         int64_t done, int point_count, const std::vector<int>& sizes, int rank, bool zigzag)
        : u_offset_(u_offset), y_offset_(y_offset), filter_points_(reinterpret_cast<float2*>(filter_points)),
          points_(reinterpret_cast<float2*>(points)), done_(reinterpret_cast<unsigned*>(done)),
          point_count_(point_count), taps_(sizes.at(3)), group_channels_(sizes.at(4)) {
        const int world = static_cast<int>(bases.size());
        if (world > kMaxRanks) throw std::runtime_error("written for at most 8 ranks");
        for (int peer = 0; peer < world; ++peer) peers_.base[peer] = reinterpret_cast<char*>(bases[peer]);
        shape_ = {sizes.at(0), sizes.at(1), sizes.at(1) / world, sizes.at(2) / 2, rank, world, zigzag};
    }

    void convolve(int64_t x2, int64_t v, int64_t filters, int64_t bias, int64_t stream) {
        ++call_;
        const Inputs inputs{{reinterpret_cast<const uint4*>(x2), reinterpret_cast<const uint4*>(v),
                             reinterpret_cast<const Half*>(filters), own(u_offset_), taps_, group_channels_},
                            reinterpret_cast<const Half*>(bias),
                            reinterpret_cast<cudaStream_t>(stream)};
        switch (point_count_) {
            case 1 << 12: launch<64, 64>(inputs); break;
            case 1 << 13: launch<128, 64>(inputs); break;
            case 1 << 14: launch<128, 128>(inputs); break;
            case 1 << 15: launch<256, 128>(inputs); break;
            case 1 << 16: launch<256, 256>(inputs); break;
            case 1 << 17: launch<512, 256>(inputs); break;
            case 1 << 18: launch<512, 512>(inputs); break;
            default: throw std::runtime_error("no transform of " + std::to_string(point_count_) + " points");
        }
        check_launch();
    }

    void finish_with(int64_t x1, int64_t z, int64_t stream) const {
        const dim3 tiles((shape_.positions() + kTile - 1) / kTile, (shape_.channels + kTile - 1) / kTile, shape_.batch);
        gate<<<tiles, kGateThreads, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
            reinterpret_cast<const Half*>(x1), reinterpret_cast<__nv_bfloat162*>(z), peers_, y_offset_, 2 * call_ + 1,
            shape_);
        check_launch();
    }

  private:
    struct Inputs { Source source; const Half* bias; cudaStream_t stream; };

    Half* own(int64_t offset) const { return reinterpret_cast<Half*>(peers_.base[shape_.rank] + offset); }

    template <int kColumnSize, int kRowSize>
    void launch(const Inputs& inputs) const {
        constexpr unsigned kStrips = kRowSize / (kColumnThreads * 8 / kColumnSize);
        constexpr unsigned kPairs = kRowThreads / (kRowSize / 4);
        const unsigned filter_pairs = shape_.own_channels / 2, pairs = shape_.batch * filter_pairs;
        const unsigned vectors = shape_.batch * shape_.channels * (shape_.positions() / 8);
        const Work work{(vectors + kSpreadVectors - 1) / kSpreadVectors, filter_pairs * kStrips, kStrips};
        columns<kColumnSize><<<work.sends + work.filters + pairs * kStrips, kColumnThreads, 0, inputs.stream>>>(
            inputs.source, filter_points_, points_, kRowSize, work, done_, peers_, u_offset_, 2 * call_, shape_);
        multiply<kRowSize><<<dim3(kColumnSize / 2, (pairs + kPairs - 1) / kPairs), kRowThreads, 0, inputs.stream>>>(
            filter_points_, points_, kColumnSize, pairs, filter_pairs);
        finish<kColumnSize><<<dim3(kStrips, pairs), kColumnThreads, 0, inputs.stream>>>(
            points_, inputs.source.u, inputs.bias, own(y_offset_), kRowSize, shape_);
    }

    Peers peers_{};
    int64_t u_offset_, y_offset_;
    float2 *filter_points_, *points_;
    unsigned* done_;
    int point_count_, taps_, group_channels_;
    Shape shape_{};
    uint32_t call_ = 0;
};

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    pybind11::class_<Plan>(m, "Plan")
        .def(pybind11::init<const std::vector<int64_t>&, int64_t, int64_t, int64_t, int64_t, int64_t, int,
                            const std::vector<int>&, int, bool>())
        .def("convolve", &Plan::convolve)
        .def("finish_with", &Plan::finish_with);
}
"""


@functools.cache
def extension():
    return compile_cuda_extension("hyena_two_streams", CUDA)


class Exchange:
    """What one shape needs: symmetric memory for u and y of the rank's own channels, and room for the transforms."""

    def __init__(self, sizes, zigzag, group):
        batch, channels, positions, taps, _ = sizes
        device = torch.device("cuda", torch.cuda.current_device())
        world = dist.get_world_size(group)
        points = transform_points(positions * world, taps)
        pairs = channels // world // 2
        stream_bytes = -(-2 * batch * channels * positions // 256) * 256
        self.memory = symm_mem.empty(FLAG_BYTES + 2 * stream_bytes, dtype=torch.uint8, device=device)
        self.memory.zero_()
        self.handle = symm_mem.rendezvous(self.memory, group)
        bases = [self.handle.get_buffer(peer, (1,), torch.uint8).data_ptr() for peer in range(world)]
        self.filter_points = torch.empty(pairs, points, 2, dtype=torch.float32, device=device)
        self.points = torch.empty(batch * pairs, points, 2, dtype=torch.float32, device=device)
        self.done = torch.zeros(1, dtype=torch.int32, device=device)
        self.plan = extension().Plan(
            bases, FLAG_BYTES, FLAG_BYTES + stream_bytes, self.filter_points.data_ptr(), self.points.data_ptr(),
            self.done.data_ptr(), points, list(sizes), self.handle.rank, zigzag,
        )
        torch.cuda.synchronize()
        dist.barrier(group)  # no flag may be raised before every rank has cleared its own


@functools.cache
def exchange(sizes, zigzag, group):
    return Exchange(sizes, zigzag, group or dist.group.WORLD)


def transform_points(length, taps):
    """The least power of two at which the wrapped end of the convolution stays clear of the first `length` points."""
    points = max(LEAST_POINTS, 1 << (length + min(length, taps) - 2).bit_length())
    if points > MOST_POINTS:
        raise ValueError(f"{length} positions and {taps} taps: written for transforms of up to {MOST_POINTS} points")
    return points


def solution(x1_seq, x2_seq, v_seq, h, conv_bias, num_groups, group_dim, group=None, with_zigzag_splitting=True):
    batch, channels, positions = x1_seq.shape
    world = dist.get_world_size(group)
    if x1_seq.dtype != torch.bfloat16 or positions % 16 or channels % (2 * world):
        raise ValueError(
            f"streams are {x1_seq.dtype}, {channels} channels, {positions} positions: written for bfloat16, "
            f"multiples of {2 * world} channels and of 16 positions"
        )
    taps = h[:, : positions * world]  # later ones meet no position
    x1, x2, v, filters, bias = (tensor.contiguous() for tensor in (x1_seq, x2_seq, v_seq, taps, conv_bias))
    plan = exchange((batch, channels, positions, filters.shape[1], group_dim), with_zigzag_splitting, group).plan
    stream = torch.cuda.current_stream().cuda_stream
    plan.convolve(x2.data_ptr(), v.data_ptr(), filters.data_ptr(), bias.data_ptr(), stream)
    z = torch.empty(batch, positions, channels, dtype=x1.dtype, device=x1.device)
    plan.finish_with(x1.data_ptr(), z.data_ptr(), stream)
    return z
