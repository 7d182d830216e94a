#ifdef __CUDACC_RTC__
  #include <cuda/std/cstdint>
  using cuda::std::uint8_t;
  using cuda::std::uint16_t;
  using cuda::std::uint32_t;
  using cuda::std::uint64_t;
  using cuda::std::int8_t;
  using cuda::std::int16_t;
  using cuda::std::int32_t;
  using cuda::std::int64_t;

  #include <cuda/std/type_traits>
  namespace std {
    using cuda::std::is_same;
    using cuda::std::is_same_v;
    using cuda::std::is_integral;
    using cuda::std::is_signed;
    using cuda::std::is_unsigned;
    using cuda::std::is_floating_point;
    using cuda::std::enable_if;
    using cuda::std::conditional;
  }

  // NVRTC uses asm/volatile instead of __asm__/__volatile__ (gcc extension).
  #ifndef __asm__
  #define __asm__ asm
  #endif
  #ifndef __volatile__
  #define __volatile__ volatile
  #endif
#else
  #include <cstdint>
  #include <type_traits>
  #include <cuda.h>
#endif

#if (((__CUDACC_VER_MAJOR__ == 11) && (__CUDACC_VER_MINOR__ >= 4)) || \
     (__CUDACC_VER_MAJOR__ > 11))
#define TVM_ENABLE_L2_PREFETCH 1
#else
#define TVM_ENABLE_L2_PREFETCH 0
#endif

#ifdef _WIN32
  using uint = unsigned int;
  using uchar = unsigned char;
  using ushort = unsigned short;
  using int64_t = long long;
  using uint64_t = unsigned long long;
#else
  #define uint unsigned int
  #define uchar unsigned char
  #define ushort unsigned short
#endif

// A launch may begin while the one before it ends: before it touches what others wrote, it waits.
static __device__ __forceinline__ int after_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  return 0;
}

extern "C" __global__ void __launch_bounds__(64) step_0(float* in1_ptr, float* __restrict__ packed_ptr, float* __restrict__ partial_ptr) {
  alignas(16) float total_ptr[16];
  __shared__ alignas(16) float local_ptr[2048];
  alignas(16) float run_ptr[4];
  alignas(16) float row_ptr[4];
  #pragma unroll
  for (int un = 0; un < 16; ++un) {
    total_ptr[un] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int un_1 = 0; un_1 < 4; ++un_1) {
    *(float4*)(local_ptr + (((un_1 * 256) + (((int)threadIdx.x) * 4)) + 1024)) = *(float4*)(packed_ptr + ((((((int)blockIdx.y) * 2048) + (((int)blockIdx.z) * 1024)) + (un_1 * 256)) + (((int)threadIdx.x) * 4)));
  }
  after_earlier_kernels();
  #pragma unroll
  for (int un_2 = 0; un_2 < 16; ++un_2) {
    local_ptr[((((((int)threadIdx.x) & 31) * 32) + (un_2 * 2)) + (((int)threadIdx.x) >> 5))] = in1_ptr[(((((((int)blockIdx.x) * 2048) + (un_2 * 128)) + ((((int)threadIdx.x) >> 5) * 64)) + (((int)blockIdx.z) * 32)) + (((int)threadIdx.x) & 31))];
  }
  __syncthreads();
  for (int i = 0; i < 32; ++i) {
    #pragma unroll
    for (int un_3 = 0; un_3 < 4; ++un_3) {
      run_ptr[un_3] = local_ptr[(((i * 32) + ((((int)threadIdx.x) >> 3) * 4)) + un_3)];
    }
    *(float4*)(row_ptr + 0) = *(float4*)(local_ptr + (((i * 32) + ((((int)threadIdx.x) & 7) * 4)) + 1024));
    #pragma unroll
    for (int un_4 = 0; un_4 < 4; ++un_4) {
      #pragma unroll
      for (int un_5 = 0; un_5 < 4; ++un_5) {
        total_ptr[((un_4 * 4) + un_5)] = (total_ptr[((un_4 * 4) + un_5)] + (row_ptr[un_4] * run_ptr[un_5]));
      }
    }
  }
  #pragma unroll
  for (int un_6 = 0; un_6 < 4; ++un_6) {
    int4 v_ = make_int4((un_6)+(4*0), (un_6)+(4*1), (un_6)+(4*2), (un_6)+(4*3));
    *(float4*)(partial_ptr + ((((((((int)blockIdx.z) * 24576) + (((int)blockIdx.x) * 3072)) + ((((int)threadIdx.x) >> 3) * 384)) + (un_6 * 96)) + (((int)blockIdx.y) * 32)) + ((((int)threadIdx.x) & 7) * 4))) = make_float4(total_ptr[v_.x],total_ptr[v_.y],total_ptr[v_.z],total_ptr[v_.w]);
  }
}

extern "C" __global__ void __launch_bounds__(128) step_0_sum(float* __restrict__ out_ptr, float* partial_ptr) {
  after_earlier_kernels();
  alignas(16) float total_ptr[4];
  __shared__ alignas(16) float tile_ptr[544];
  alignas(16) float values_ptr[4];
  *(float4*)(total_ptr + 0) = make_float4(0x0p+0f/*0.000000e+00*/, 0x0p+0f/*0.000000e+00*/, 0x0p+0f/*0.000000e+00*/, 0x0p+0f/*0.000000e+00*/);
  #pragma unroll
  for (int un = 0; un < 2; ++un) {
    float4 __1;
      float4 v_ = *(float4*)(total_ptr + 0);
      float4 v__1 = *(float4*)(partial_ptr + (((((un * 24576) + (((int)blockIdx.x) * 1536)) + ((((int)threadIdx.x) >> 3) * 96)) + (((int)blockIdx.y) * 32)) + ((((int)threadIdx.x) & 7) * 4)));
      __1.x = (v_.x+v__1.x);
      __1.y = (v_.y+v__1.y);
      __1.z = (v_.z+v__1.z);
      __1.w = (v_.w+v__1.w);
    *(float4*)(total_ptr + 0) = __1;
  }
  #pragma unroll
  for (int un_1 = 0; un_1 < 4; ++un_1) {
    tile_ptr[((((((int)threadIdx.x) & 7) * 68) + (un_1 * 17)) + (((int)threadIdx.x) >> 3))] = total_ptr[un_1];
  }
  __syncthreads();
  #pragma unroll
  for (int un_2 = 0; un_2 < 4; ++un_2) {
    float t = tile_ptr[((((((int)threadIdx.x) & 31) * 17) + (un_2 * 4)) + (((int)threadIdx.x) >> 5))];
    values_ptr[un_2] = ((t < 0x0p+0f/*0.000000e+00*/) ? 0x0p+0f/*0.000000e+00*/ : t);
  }
  #pragma unroll
  for (int un_3 = 0; un_3 < 4; ++un_3) {
    out_ptr[(((((((int)blockIdx.x) * 1536) + (un_3 * 384)) + ((((int)threadIdx.x) >> 5) * 96)) + (((int)blockIdx.y) * 32)) + (((int)threadIdx.x) & 31))] = values_ptr[un_3];
  }
}
