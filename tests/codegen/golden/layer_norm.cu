#include <cuda_fp16.h>

// A launch may begin while the one before it ends: before it touches what others wrote, it waits.
static __device__ __forceinline__ int after_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  return 0;
}

extern "C" __global__ void __launch_bounds__(128) step_0(const half* in0, const half* in1, half* __restrict__ out) {
  after_earlier_kernels();
  const int group_x = (int)blockIdx.x;
  const int local_x = (int)threadIdx.x;
  alignas(4) float h0[6];
  alignas(4) float total[1];
  alignas(4) float other[1];
  __shared__ alignas(16) float totals_float32[4];
  alignas(4) float total_1[1];
  alignas(4) float other_1[1];
  #pragma unroll
  for (int un = 0; un < 6; ++un) {
    const half t = in1[group_x * 768 + un * 128 + local_x];
    const half t_1 = in0[group_x * 768 + un * 128 + local_x];
    h0[un] = (float)(half)((float)t + (float)t_1);
  }
  total[0] = 0.0f;
  #pragma unroll
  for (int un_1 = 0; un_1 < 6; ++un_1) {
    const float t_2 = h0[un_1];
    total[0] = total[0] + t_2;
  }
  other[0] = __shfl_xor_sync(4294967295u, total[0], 16);
  total[0] = total[0] + other[0];
  other[0] = __shfl_xor_sync(4294967295u, total[0], 8);
  total[0] = total[0] + other[0];
  other[0] = __shfl_xor_sync(4294967295u, total[0], 4);
  total[0] = total[0] + other[0];
  other[0] = __shfl_xor_sync(4294967295u, total[0], 2);
  total[0] = total[0] + other[0];
  other[0] = __shfl_xor_sync(4294967295u, total[0], 1);
  total[0] = total[0] + other[0];
  if (local_x % 32 == 0) {
    totals_float32[local_x >> 5] = total[0];
  }
  __syncthreads();
  total[0] = totals_float32[0];
  total[0] = total[0] + totals_float32[1];
  total[0] = total[0] + totals_float32[2];
  total[0] = total[0] + totals_float32[3];
  total_1[0] = 0.0f;
  #pragma unroll
  for (int un_2 = 0; un_2 < 6; ++un_2) {
    const float t_3 = h0[un_2];
    const float t_4 = total[0] / 768.0f;
    total_1[0] = total_1[0] + (t_3 - t_4) * (t_3 - t_4);
  }
  other_1[0] = __shfl_xor_sync(4294967295u, total_1[0], 16);
  total_1[0] = total_1[0] + other_1[0];
  other_1[0] = __shfl_xor_sync(4294967295u, total_1[0], 8);
  total_1[0] = total_1[0] + other_1[0];
  other_1[0] = __shfl_xor_sync(4294967295u, total_1[0], 4);
  total_1[0] = total_1[0] + other_1[0];
  other_1[0] = __shfl_xor_sync(4294967295u, total_1[0], 2);
  total_1[0] = total_1[0] + other_1[0];
  other_1[0] = __shfl_xor_sync(4294967295u, total_1[0], 1);
  total_1[0] = total_1[0] + other_1[0];
  __syncthreads();
  if (local_x % 32 == 0) {
    totals_float32[local_x >> 5] = total_1[0];
  }
  __syncthreads();
  total_1[0] = totals_float32[0];
  total_1[0] = total_1[0] + totals_float32[1];
  total_1[0] = total_1[0] + totals_float32[2];
  total_1[0] = total_1[0] + totals_float32[3];
  #pragma unroll
  for (int un_3 = 0; un_3 < 6; ++un_3) {
    const float t_5 = h0[un_3];
    const float t_6 = total[0] / 768.0f;
    const float t_7 = total_1[0] / 768.0f;
    out[group_x * 768 + un_3 * 128 + local_x] = (half)((t_5 - t_6) / sqrtf(t_7 + 1e-05f));
  }
}
