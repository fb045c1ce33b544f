// multicast_store.txt beside it is what CUDA 13.0's tools print of it, with the PTX that our commands keep:
//   nvcc -gencode=arch=compute_90a,code=[sm_90a,compute_90a] -shared -Xcompiler -fPIC -o m.so multicast_store.cu
//   cuobjdump -sass -ptx m.so
extern "C" __global__ void scatter(const float4* input, float4* everywhere) {
    const float4 value = input[threadIdx.x];
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(everywhere + threadIdx.x),
                 "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w) : "memory");
}
