// What kernels of products share: numbers as they are stored, and asynchronous copies of 16 bytes to
// shared memory (sm_80 and later).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define GLENSIDE_LOCAL(name) extern __shared__ __align__(128) unsigned char name[]

namespace glenside {
using bfloat = __nv_bfloat16;

__device__ __forceinline__ float number(half value) { return __half2float(value); }
__device__ __forceinline__ float number(bfloat value) { return __bfloat162float(value); }
__device__ __forceinline__ float number(float value) { return value; }
__device__ __forceinline__ float rounded(float value) {
  return __half2float(__float2half_rn(value));
}
__device__ __forceinline__ float rounded_bfloat(float value) {
  return __bfloat162float(__float2bfloat16_rn(value));
}
__device__ __forceinline__ int bits(float value) { return __float_as_int(value); }

// 16 bytes of neighbours, as they lie in memory.
__device__ __forceinline__ uint4 packed(const half* values) { return *(const uint4*)values; }
__device__ __forceinline__ uint4 packed(const bfloat* values) { return *(const uint4*)values; }
__device__ __forceinline__ uint4 packed(const float* values) {
  return *(const uint4*)values;
}
// Numbers as 16 bytes of halves or floats.
__device__ __forceinline__ uint4 stored(const float (&values)[8]) {
  uint4 result;
  half2* const pairs = (half2*)&result;
#pragma unroll
  for (int k = 0; k < 4; ++k) pairs[k] = __floats2half2_rn(values[k * 2], values[k * 2 + 1]);
  return result;
}
__device__ __forceinline__ uint4 stored_bfloat(const float (&values)[8]) {
  uint4 result;
  __nv_bfloat162* const pairs = (__nv_bfloat162*)&result;
#pragma unroll
  for (int k = 0; k < 4; ++k)
    pairs[k] = __floats2bfloat162_rn(values[k * 2], values[k * 2 + 1]);
  return result;
}
__device__ __forceinline__ uint4 stored(const float (&values)[4]) {
  return *(const uint4*)values;
}
__device__ __forceinline__ void assign(half& place, float value) {
  place = __float2half_rn(value);
}
__device__ __forceinline__ void assign(bfloat& place, float value) {
  place = __float2bfloat16_rn(value);
}
__device__ __forceinline__ void assign(float& place, float value) { place = value; }

__device__ __forceinline__ unsigned shared_address(const void* place) {
  return (unsigned)__cvta_generic_to_shared(place);
}

// Copies 16 bytes, or writes zeros where there is nothing to be read.
__device__ __forceinline__ void copy(unsigned char* target, const void* source, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(target)),
               "l"(source), "r"(there ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void copies_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int PENDING>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

__device__ __forceinline__ void group_wait() { __syncthreads(); }
}  // namespace glenside
