// The frame of a timed call on a GPU: a gate that the host opens, inputs sealed until then, and a fingerprint of the
// finished outputs that no rank can know earlier. The same code runs in sandbox ranks and in the reference's ranks.
//
// Keystream: ChaCha with 20 rounds (D. J. Bernstein, "ChaCha, a variant of Salsa20", 2008). On an H200 it costs no more
// than reading and writing the memory does. Fingerprint: a tree of compressions by the ChaCha permutation with 8
// rounds. A sum would be easy to forge: changing the last bit of many elements can reach any sum.

typedef unsigned int u32;
typedef unsigned long long u64;

#define THREADS 256      // threads of a block of `take`; the tree's shape depends on it
#define TILE_ROUNDS 2    // blocks of 64 bytes that each thread absorbs of a tile

__device__ __forceinline__ u32 rotl(u32 x, int n) { return __funnelshift_l(x, x, n); }

#define QUARTER(a, b, c, d)                                                                                            \
  a += b; d ^= a; d = rotl(d, 16);                                                                                     \
  c += d; b ^= c; b = rotl(b, 12);                                                                                     \
  a += b; d ^= a; d = rotl(d, 8);                                                                                      \
  c += d; b ^= c; b = rotl(b, 7);

template <int ROUNDS> __device__ __forceinline__ void permute(u32 (&x)[16]) {
#pragma unroll
  for (int round = 0; round < ROUNDS; round += 2) {
    QUARTER(x[0], x[4], x[8], x[12]) QUARTER(x[1], x[5], x[9], x[13])
    QUARTER(x[2], x[6], x[10], x[14]) QUARTER(x[3], x[7], x[11], x[15])
    QUARTER(x[0], x[5], x[10], x[15]) QUARTER(x[1], x[6], x[11], x[12])
    QUARTER(x[2], x[7], x[8], x[13]) QUARTER(x[3], x[4], x[9], x[14])
  }
}

__device__ __forceinline__ u64 now_ns() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// One thread: writes that it runs, spin-waits until the host has written `number` into `open`, at most `limit_ns`, and fetches
// the key.
extern "C" __global__ void pkb_gate(volatile u64 *open, volatile u64 *arrived, volatile u32 *host_key, u64 number,
                                    u64 limit_ns, u32 *key, u32 *chain) {
  u64 start = now_ns();
  *arrived = number;
  while (*open != number && now_ns() - start < limit_ns) {}
  __threadfence_system();  // the key was written before `open`
  for (int i = 0; i < 8; i++) chain[i] = key[i] = host_key[i];
}

// Reads a word of every `stride` bytes, so that the addresses are known to the device before the gate opens.
extern "C" __global__ void pkb_touch(const unsigned char *area, u64 bytes, u64 stride, u32 *sink) {
  u32 sum = 0;
  for (u64 at = stride * (blockIdx.x * (u64)blockDim.x + threadIdx.x); at < bytes;
       at += stride * gridDim.x * blockDim.x)
    sum += *(const volatile unsigned char *)(area + at);
  if (sum == 0xffffffffu) *sink = sum;
}

// dst = src ^ keystream(key, rank); `bytes` from the beginning of the stream's block `first`. 16-byte aligned.
extern "C" __global__ void __launch_bounds__(256)
    pkb_seal(const unsigned char *src, unsigned char *dst, u64 bytes, u64 first, const u32 *key, u32 rank) {
  u32 k[8];
  for (int i = 0; i < 8; i++) k[i] = key[i];
  u64 blocks = (bytes + 63) / 64;
  for (u64 b = blockIdx.x * (u64)blockDim.x + threadIdx.x; b < blocks; b += (u64)gridDim.x * blockDim.x) {
    u64 at = first + b;
    u32 s[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, k[0], k[1], k[2], k[3],
                 k[4], k[5], k[6], k[7], (u32)at, (u32)(at >> 32), rank, 0};
    u32 x[16];
#pragma unroll
    for (int i = 0; i < 16; i++) x[i] = s[i];
    permute<20>(x);
#pragma unroll
    for (int i = 0; i < 16; i++) x[i] += s[i];
    if (64 * b + 64 <= bytes) {
      const uint4 *from = (const uint4 *)src + 4 * b;
      uint4 *to = (uint4 *)dst + 4 * b;
      uint4 d[4] = {from[0], from[1], from[2], from[3]};
#pragma unroll
      for (int i = 0; i < 4; i++) {
        d[i].x ^= x[4 * i]; d[i].y ^= x[4 * i + 1]; d[i].z ^= x[4 * i + 2]; d[i].w ^= x[4 * i + 3];
        to[i] = d[i];
      }
    } else {
#pragma unroll
      for (int i = 0; i < 64; i++)
        if (64 * b + i < bytes) dst[64 * b + i] = src[64 * b + i] ^ (unsigned char)(x[i / 4] >> (8 * (i % 4)));
    }
  }
}

// chain = chain ^ fold(P(message ^ chain) + message): one-way, as the message goes in before and after.
__device__ __forceinline__ void absorb(u32 (&chain)[8], const u32 (&message)[16]) {
  u32 x[16];
#pragma unroll
  for (int i = 0; i < 16; i++) x[i] = message[i] ^ chain[i % 8] ^ (i < 8 ? 0 : 0x9e3779b9u * i);
  permute<8>(x);
#pragma unroll
  for (int i = 0; i < 8; i++) chain[i] ^= (x[i] + message[i]) ^ (x[i + 8] + message[i + 8]);
}

// The chains of all threads of a block as one, in thread 0: each node absorbs two others at once.
__device__ void join(u32 (&chain)[8], u32 (*shared)[8], int count) {
  while (count > 1) {
    int width = (count + 2) / 3;
    if (threadIdx.x >= width && threadIdx.x < count)
#pragma unroll
      for (int i = 0; i < 8; i++) shared[threadIdx.x][i] = chain[i];
    __syncthreads();
    if (threadIdx.x < width) {
      u32 message[16];
      int second = threadIdx.x + width, third = second + width;
#pragma unroll
      for (int i = 0; i < 8; i++) {
        message[i] = second < count ? shared[second][i] : 0;
        message[i + 8] = third < count ? shared[third][i] : 0;
      }
      absorb(chain, message);
    }
    __syncthreads();
    count = width;
  }
}

// 64 bytes from `at`, bytes behind the end read as zeros.
__device__ __forceinline__ void read_block(const unsigned char *src, u64 at, u64 bytes, uint4 (&d)[4]) {
  if (at + 64 <= bytes) {
#pragma unroll
    for (int i = 0; i < 4; i++) d[i] = *(const uint4 *)(src + at + 16 * i);
    return;
  }
  u32 words[16];
#pragma unroll
  for (int i = 0; i < 16; i++) words[i] = 0;
#pragma unroll
  for (int i = 0; i < 64; i++)
    if (at + i < bytes) words[i / 4] |= (u32)src[at + i] << (8 * (i % 4));
#pragma unroll
  for (int i = 0; i < 4; i++) d[i] = make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
}

__device__ __forceinline__ void write_block(unsigned char *dst, u64 at, u64 bytes, const uint4 (&d)[4]) {
  if (at + 64 <= bytes) {
#pragma unroll
    for (int i = 0; i < 4; i++) *(uint4 *)(dst + at + 16 * i) = d[i];
    return;
  }
  const u32 words[16] = {d[0].x, d[0].y, d[0].z, d[0].w, d[1].x, d[1].y, d[1].z, d[1].w,
                         d[2].x, d[2].y, d[2].z, d[2].w, d[3].x, d[3].y, d[3].z, d[3].w};
#pragma unroll
  for (int i = 0; i < 64; i++)
    if (at + i < bytes) dst[at + i] = (unsigned char)(words[i / 4] >> (8 * (i % 4)));
}

// Copies one output to `dst` (none where it is null) and absorbs it; the last block of the last output posts the end.
// `tiles` holds 32 bytes for every tile of 32 KiB. `chain` runs over the outputs of a call; the gate has set it to the
// key. `mark` and `done` are the host's words for this rank.
extern "C" __global__ void __launch_bounds__(THREADS)
    pkb_take(const unsigned char *src, unsigned char *dst, u64 bytes, const u32 *key, u32 rank, u32 place, u32 *tiles,
             u32 *left, u32 *chain, u32 is_last, volatile u64 *mark, volatile u64 *done, u64 number) {
  __shared__ u32 shared[THREADS][8];
  __shared__ bool is_final;
  const u64 per_tile = 64ull * THREADS * TILE_ROUNDS, count = (bytes + per_tile - 1) / per_tile;
  for (u64 tile = blockIdx.x; tile < count; tile += gridDim.x) {
    u32 c[8];
    for (int i = 0; i < 8; i++) c[i] = key[i];
    c[0] ^= threadIdx.x; c[1] ^= (u32)tile; c[2] ^= (u32)(tile >> 32); c[3] ^= place; c[4] ^= (u32)bytes;
    c[5] ^= (u32)(bytes >> 32); c[6] ^= rank;
    uint4 d[TILE_ROUNDS][4];
    const u64 start = tile * per_tile + 64ull * threadIdx.x;
#pragma unroll
    for (int round = 0; round < TILE_ROUNDS; round++)
      if (start + 64ull * THREADS * round < bytes) read_block(src, start + 64ull * THREADS * round, bytes, d[round]);
#pragma unroll
    for (int round = 0; round < TILE_ROUNDS; round++) {
      u64 at = start + 64ull * THREADS * round;
      if (at >= bytes) break;
      if (dst) write_block(dst, at, bytes, d[round]);
      u32 message[16];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        message[4 * i] = d[round][i].x; message[4 * i + 1] = d[round][i].y;
        message[4 * i + 2] = d[round][i].z; message[4 * i + 3] = d[round][i].w;
      }
      absorb(c, message);
    }
    join(c, shared, THREADS);
    if (threadIdx.x == 0)
      for (int i = 0; i < 8; i++) tiles[8 * tile + i] = c[i];
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_final = atomicAdd(left, 1) == gridDim.x - 1;
  __syncthreads();
  if (!is_final) return;
  __threadfence();
  u32 c[8];
  for (int i = 0; i < 8; i++) c[i] = key[i];
  c[0] ^= threadIdx.x; c[7] ^= 1;
  for (u64 tile = 2 * threadIdx.x; tile < count; tile += 2 * THREADS) {
    u32 message[16];
#pragma unroll
    for (int i = 0; i < 16; i++) message[i] = tile + i / 8 < count ? __ldcg(tiles + 8 * tile + i) : 0;
    absorb(c, message);
  }
  join(c, shared, (int)min((u64)THREADS, (count + 1) / 2));
  if (threadIdx.x != 0) return;
  u32 all[8], message[16];
  for (int i = 0; i < 8; i++) { all[i] = chain[i]; message[i] = c[i]; message[i + 8] = place; }
  absorb(all, message);
  for (int i = 0; i < 8; i++) chain[i] = all[i];
  *left = 0;
  if (!is_last) return;
  __threadfence_system();  // the outputs are in `dst` before the host sees the end
  mark[0] = (u64)all[1] << 32 | all[0];
  mark[1] = (u64)all[3] << 32 | all[2];
  __threadfence_system();
  *done = number;
}
