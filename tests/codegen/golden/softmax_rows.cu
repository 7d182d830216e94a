// A launch may begin while the one before it ends: before it touches what others wrote, it waits.
static __device__ __forceinline__ int after_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  return 0;
}

extern "C" __global__ void __launch_bounds__(32) step_0(const float* in0, float* __restrict__ out) {
  after_earlier_kernels();
  const int group_x = (int)blockIdx.x;
  const int local_x = (int)threadIdx.x;
  alignas(4) float total[1];
  alignas(4) float top[1];
  __shared__ alignas(16) float totals[32];
  total[0] = 0.0f;
  top[0] = -__int_as_float(0x7f800000);
  #pragma unroll
  for (int un = 0; un < 6; ++un) {
    const float t = in0[group_x * 200 + un * 32 + local_x];
    const int bits = __float_as_int(top[0]);
    top[0] = t < top[0] || 2139095040 < (bits & 2147483647) ? top[0] : t;
  }
  if (local_x < 8) {
    const float t_1 = in0[group_x * 200 + local_x + 192];
    const int bits_1 = __float_as_int(top[0]);
    top[0] = t_1 < top[0] || 2139095040 < (bits_1 & 2147483647) ? top[0] : t_1;
  }
  totals[local_x] = top[0];
  __syncthreads();
  if (local_x < 16) {
    const int bits_2 = __float_as_int(totals[local_x]);
    totals[local_x] = totals[local_x + 16] < totals[local_x] || 2139095040 < (bits_2 & 2147483647) ? totals[local_x] : totals[local_x + 16];
  }
  __syncthreads();
  if (local_x < 8) {
    const int bits_3 = __float_as_int(totals[local_x]);
    totals[local_x] = totals[local_x + 8] < totals[local_x] || 2139095040 < (bits_3 & 2147483647) ? totals[local_x] : totals[local_x + 8];
  }
  __syncthreads();
  if (local_x < 4) {
    const int bits_4 = __float_as_int(totals[local_x]);
    totals[local_x] = totals[local_x + 4] < totals[local_x] || 2139095040 < (bits_4 & 2147483647) ? totals[local_x] : totals[local_x + 4];
  }
  __syncthreads();
  if (local_x < 2) {
    const int bits_5 = __float_as_int(totals[local_x]);
    totals[local_x] = totals[local_x + 2] < totals[local_x] || 2139095040 < (bits_5 & 2147483647) ? totals[local_x] : totals[local_x + 2];
  }
  __syncthreads();
  if (local_x < 1) {
    const int bits_6 = __float_as_int(totals[local_x]);
    totals[local_x] = totals[local_x + 1] < totals[local_x] || 2139095040 < (bits_6 & 2147483647) ? totals[local_x] : totals[local_x + 1];
  }
  __syncthreads();
  top[0] = totals[0];
  __syncthreads();
  #pragma unroll
  for (int un_1 = 0; un_1 < 6; ++un_1) {
    total[0] = total[0] + expf(in0[group_x * 200 + un_1 * 32 + local_x] - top[0]);
  }
  if (local_x < 8) {
    total[0] = total[0] + expf(in0[group_x * 200 + local_x + 192] - top[0]);
  }
  totals[local_x] = total[0];
  __syncthreads();
  if (local_x < 16) {
    totals[local_x] = totals[local_x] + totals[local_x + 16];
  }
  __syncthreads();
  if (local_x < 8) {
    totals[local_x] = totals[local_x] + totals[local_x + 8];
  }
  __syncthreads();
  if (local_x < 4) {
    totals[local_x] = totals[local_x] + totals[local_x + 4];
  }
  __syncthreads();
  if (local_x < 2) {
    totals[local_x] = totals[local_x] + totals[local_x + 2];
  }
  __syncthreads();
  if (local_x < 1) {
    totals[local_x] = totals[local_x] + totals[local_x + 1];
  }
  __syncthreads();
  total[0] = totals[0];
  #pragma unroll
  for (int un_2 = 0; un_2 < 6; ++un_2) {
    out[group_x * 200 + un_2 * 32 + local_x] = expf(in0[group_x * 200 + un_2 * 32 + local_x] - top[0]) / total[0];
  }
  if (local_x < 8) {
    out[group_x * 200 + local_x + 192] = expf(in0[group_x * 200 + local_x + 192] - top[0]) / total[0];
  }
}
