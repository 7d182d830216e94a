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

extern "C" __global__ void __launch_bounds__(128) step_0(float* in0_ptr, float* __restrict__ out_ptr) {
  after_earlier_kernels();
  alignas(16) float v0_ptr[16];
  alignas(16) float v1_ptr[16];
  if (((((int)blockIdx.x) * 16) + (((int)threadIdx.x) >> 3)) < 49) {
    int at = (((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49);
    int at_1 = ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7);
    int at_2 = (((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7);
    float t = in0_ptr[((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2))];
    v0_ptr[0] = t;
    float t_1 = in0_ptr[(((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2)) + 1)];
    v0_ptr[1] = t_1;
    float t_2 = in0_ptr[(((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2)) + 2)];
    v0_ptr[2] = t_2;
    float t_3 = in0_ptr[(((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2)) + 3)];
    v0_ptr[3] = t_3;
    float t_4 = in0_ptr[(((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2)) + 16)];
    v0_ptr[4] = t_4;
    float t_5 = in0_ptr[(((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2)) + 17)];
    v0_ptr[5] = t_5;
    float t_6 = in0_ptr[(((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2)) + 18)];
    v0_ptr[6] = t_6;
    float t_7 = in0_ptr[(((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2)) + 19)];
    v0_ptr[7] = t_7;
    float t_8 = in0_ptr[(((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2)) + 32)];
    v0_ptr[8] = t_8;
    float t_9 = in0_ptr[(((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2)) + 33)];
    v0_ptr[9] = t_9;
    float t_10 = in0_ptr[(((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2)) + 34)];
    v0_ptr[10] = t_10;
    float t_11 = in0_ptr[(((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2)) + 35)];
    v0_ptr[11] = t_11;
    float t_12 = in0_ptr[(((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2)) + 48)];
    v0_ptr[12] = t_12;
    float t_13 = in0_ptr[(((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2)) + 49)];
    v0_ptr[13] = t_13;
    float t_14 = in0_ptr[(((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2)) + 50)];
    v0_ptr[14] = t_14;
    float t_15 = in0_ptr[(((((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) / 49) * 256) + (((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 49) / 7) * 32)) + ((((((int)blockIdx.x) * 128) + ((int)threadIdx.x)) % 7) * 2)) + 51)];
    v0_ptr[15] = t_15;
    v1_ptr[0] = (((v0_ptr[0] + v0_ptr[10]) - v0_ptr[2]) - v0_ptr[8]);
    v1_ptr[1] = (((v0_ptr[1] + v0_ptr[2]) - v0_ptr[9]) - v0_ptr[10]);
    v1_ptr[2] = (((v0_ptr[2] + v0_ptr[9]) - v0_ptr[1]) - v0_ptr[10]);
    v1_ptr[3] = (((v0_ptr[1] + v0_ptr[11]) - v0_ptr[3]) - v0_ptr[9]);
    v1_ptr[4] = (((v0_ptr[4] + v0_ptr[8]) - v0_ptr[6]) - v0_ptr[10]);
    v1_ptr[5] = (((v0_ptr[5] + v0_ptr[6]) + v0_ptr[9]) + v0_ptr[10]);
    v1_ptr[6] = (((v0_ptr[6] + v0_ptr[10]) - v0_ptr[5]) - v0_ptr[9]);
    v1_ptr[7] = (((v0_ptr[5] + v0_ptr[9]) - v0_ptr[7]) - v0_ptr[11]);
    v1_ptr[8] = (((v0_ptr[6] + v0_ptr[8]) - v0_ptr[4]) - v0_ptr[10]);
    v1_ptr[9] = (((v0_ptr[9] + v0_ptr[10]) - v0_ptr[5]) - v0_ptr[6]);
    v1_ptr[10] = (((v0_ptr[5] + v0_ptr[10]) - v0_ptr[6]) - v0_ptr[9]);
    v1_ptr[11] = (((v0_ptr[7] + v0_ptr[9]) - v0_ptr[5]) - v0_ptr[11]);
    v1_ptr[12] = (((v0_ptr[4] + v0_ptr[14]) - v0_ptr[6]) - v0_ptr[12]);
    v1_ptr[13] = (((v0_ptr[5] + v0_ptr[6]) - v0_ptr[13]) - v0_ptr[14]);
    v1_ptr[14] = (((v0_ptr[6] + v0_ptr[13]) - v0_ptr[5]) - v0_ptr[14]);
    v1_ptr[15] = (((v0_ptr[5] + v0_ptr[15]) - v0_ptr[7]) - v0_ptr[13]);
    *(float4*)(out_ptr + ((((int)blockIdx.x) * 2048) + (((int)threadIdx.x) * 16))) = *(float4*)(v1_ptr + 0);
    *(float4*)(out_ptr + (((((int)blockIdx.x) * 2048) + (((int)threadIdx.x) * 16)) + 4)) = *(float4*)(v1_ptr + 4);
    *(float4*)(out_ptr + (((((int)blockIdx.x) * 2048) + (((int)threadIdx.x) * 16)) + 8)) = *(float4*)(v1_ptr + 8);
    *(float4*)(out_ptr + (((((int)blockIdx.x) * 2048) + (((int)threadIdx.x) * 16)) + 12)) = *(float4*)(v1_ptr + 12);
  }
}
