// One kernel per primitive; primitives.sass beside it is what CUDA 13.0's compiler made of it:
//   nvcc -arch=sm_90a -shared -Xcompiler -fPIC -o primitives.so primitives.cu && cuobjdump -sass primitives.so
#include <cuda_runtime.h>

extern "C" __global__ void plain(float* out, const float* in) { out[threadIdx.x] = in[threadIdx.x]; }

extern "C" __global__ void flags(float* out, unsigned* flag, const float4* in) {
    unsigned seen;
    do {
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag));
    } while (seen == 0);
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag + 1), "r"(1u));
    out[0] = in[0].x;
}

extern "C" __global__ void multicast(float* group, float* out) {
    float x, y, z, w;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "l"(group));
    out[0] = x + y + z + w;
}

extern "C" __global__ void bulk(float* from, float* to) {
    __shared__ alignas(128) float tile[256];
    __shared__ alignas(8) unsigned long long arrived;
    unsigned tile_at = __cvta_generic_to_shared(tile), arrived_at = __cvta_generic_to_shared(&arrived);
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(arrived_at));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::
                 "r"(tile_at), "l"(from), "r"(arrived_at));
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" ::"l"(to), "r"(tile_at));
}

extern "C" __global__ void tensor_map(void* map) {
    __shared__ alignas(128) float tile[256];
    unsigned tile_at = __cvta_generic_to_shared(tile);
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::
                 "l"(map), "r"(0), "r"(0), "r"(tile_at));
}
