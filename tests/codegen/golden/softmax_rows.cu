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

#include <math_constants.h>

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

extern "C" __global__ void __launch_bounds__(32) step_0(float* in0_ptr, float* __restrict__ out_ptr) {
  after_earlier_kernels();
  alignas(64) float total_ptr[1];
  alignas(64) float top_ptr[1];
  __shared__ alignas(16) float totals_ptr[32];
  total_ptr[0] = 0x0p+0f/*0.000000e+00*/;
  top_ptr[0] = -CUDART_INF_F;
  #pragma unroll
  for (int un = 0; un < 6; ++un) {
    float t = in0_ptr[(((((int)blockIdx.x) * 200) + (un * 32)) + ((int)threadIdx.x))];
      float v_ = top_ptr[0];
    float condval;
    if ((t < top_ptr[0]) || (2139095040 < ((*(int *)(&(v_))) & 2147483647))) {
      condval = top_ptr[0];
    } else {
      condval = t;
    }
    top_ptr[0] = condval;
  }
  if (((int)threadIdx.x) < 8) {
    float t_1 = in0_ptr[(((((int)blockIdx.x) * 200) + ((int)threadIdx.x)) + 192)];
      float v__1 = top_ptr[0];
    float condval_1;
    if ((t_1 < top_ptr[0]) || (2139095040 < ((*(int *)(&(v__1))) & 2147483647))) {
      condval_1 = top_ptr[0];
    } else {
      condval_1 = t_1;
    }
    top_ptr[0] = condval_1;
  }
  totals_ptr[((int)threadIdx.x)] = top_ptr[0];
  __syncthreads();
  if (((int)threadIdx.x) < 16) {
      float v__2 = totals_ptr[((int)threadIdx.x)];
    float condval_2;
    if ((totals_ptr[(((int)threadIdx.x) + 16)] < totals_ptr[((int)threadIdx.x)]) || (2139095040 < ((*(int *)(&(v__2))) & 2147483647))) {
      condval_2 = totals_ptr[((int)threadIdx.x)];
    } else {
      condval_2 = totals_ptr[(((int)threadIdx.x) + 16)];
    }
    totals_ptr[((int)threadIdx.x)] = condval_2;
  }
  __syncthreads();
  if (((int)threadIdx.x) < 8) {
      float v__3 = totals_ptr[((int)threadIdx.x)];
    float condval_3;
    if ((totals_ptr[(((int)threadIdx.x) + 8)] < totals_ptr[((int)threadIdx.x)]) || (2139095040 < ((*(int *)(&(v__3))) & 2147483647))) {
      condval_3 = totals_ptr[((int)threadIdx.x)];
    } else {
      condval_3 = totals_ptr[(((int)threadIdx.x) + 8)];
    }
    totals_ptr[((int)threadIdx.x)] = condval_3;
  }
  __syncthreads();
  if (((int)threadIdx.x) < 4) {
      float v__4 = totals_ptr[((int)threadIdx.x)];
    float condval_4;
    if ((totals_ptr[(((int)threadIdx.x) + 4)] < totals_ptr[((int)threadIdx.x)]) || (2139095040 < ((*(int *)(&(v__4))) & 2147483647))) {
      condval_4 = totals_ptr[((int)threadIdx.x)];
    } else {
      condval_4 = totals_ptr[(((int)threadIdx.x) + 4)];
    }
    totals_ptr[((int)threadIdx.x)] = condval_4;
  }
  __syncthreads();
  if (((int)threadIdx.x) < 2) {
      float v__5 = totals_ptr[((int)threadIdx.x)];
    float condval_5;
    if ((totals_ptr[(((int)threadIdx.x) + 2)] < totals_ptr[((int)threadIdx.x)]) || (2139095040 < ((*(int *)(&(v__5))) & 2147483647))) {
      condval_5 = totals_ptr[((int)threadIdx.x)];
    } else {
      condval_5 = totals_ptr[(((int)threadIdx.x) + 2)];
    }
    totals_ptr[((int)threadIdx.x)] = condval_5;
  }
  __syncthreads();
  if (((int)threadIdx.x) < 1) {
      float v__6 = totals_ptr[0];
    float condval_6;
    if ((totals_ptr[1] < totals_ptr[0]) || (2139095040 < ((*(int *)(&(v__6))) & 2147483647))) {
      condval_6 = totals_ptr[0];
    } else {
      condval_6 = totals_ptr[1];
    }
    totals_ptr[0] = condval_6;
  }
  __syncthreads();
  top_ptr[0] = totals_ptr[0];
  __syncthreads();
  #pragma unroll
  for (int un_1 = 0; un_1 < 6; ++un_1) {
    total_ptr[0] = (total_ptr[0] + expf((in0_ptr[(((((int)blockIdx.x) * 200) + (un_1 * 32)) + ((int)threadIdx.x))] - top_ptr[0])));
  }
  if (((int)threadIdx.x) < 8) {
    total_ptr[0] = (total_ptr[0] + expf((in0_ptr[(((((int)blockIdx.x) * 200) + ((int)threadIdx.x)) + 192)] - top_ptr[0])));
  }
  totals_ptr[((int)threadIdx.x)] = total_ptr[0];
  __syncthreads();
  if (((int)threadIdx.x) < 16) {
    totals_ptr[((int)threadIdx.x)] = (totals_ptr[((int)threadIdx.x)] + totals_ptr[(((int)threadIdx.x) + 16)]);
  }
  __syncthreads();
  if (((int)threadIdx.x) < 8) {
    totals_ptr[((int)threadIdx.x)] = (totals_ptr[((int)threadIdx.x)] + totals_ptr[(((int)threadIdx.x) + 8)]);
  }
  __syncthreads();
  if (((int)threadIdx.x) < 4) {
    totals_ptr[((int)threadIdx.x)] = (totals_ptr[((int)threadIdx.x)] + totals_ptr[(((int)threadIdx.x) + 4)]);
  }
  __syncthreads();
  if (((int)threadIdx.x) < 2) {
    totals_ptr[((int)threadIdx.x)] = (totals_ptr[((int)threadIdx.x)] + totals_ptr[(((int)threadIdx.x) + 2)]);
  }
  __syncthreads();
  if (((int)threadIdx.x) < 1) {
    totals_ptr[0] = (totals_ptr[0] + totals_ptr[1]);
  }
  __syncthreads();
  total_ptr[0] = totals_ptr[0];
  #pragma unroll
  for (int un_2 = 0; un_2 < 6; ++un_2) {
    out_ptr[(((((int)blockIdx.x) * 200) + (un_2 * 32)) + ((int)threadIdx.x))] = (expf((in0_ptr[(((((int)blockIdx.x) * 200) + (un_2 * 32)) + ((int)threadIdx.x))] - top_ptr[0])) / total_ptr[0]);
  }
  if (((int)threadIdx.x) < 8) {
    out_ptr[(((((int)blockIdx.x) * 200) + ((int)threadIdx.x)) + 192)] = (expf((in0_ptr[(((((int)blockIdx.x) * 200) + ((int)threadIdx.x)) + 192)] - top_ptr[0])) / total_ptr[0]);
  }
}
