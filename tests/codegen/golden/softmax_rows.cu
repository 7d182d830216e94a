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
  alignas(4) float h0[7];
  alignas(4) float top[1];
  alignas(4) float other[1];
  alignas(4) float total[1];
  alignas(4) float other_1[1];
  #pragma unroll
  for (int un = 0; un < 6; ++un) {
    const float t = in0[group_x * 200 + un * 32 + local_x];
    h0[un] = t;
  }
  if (local_x < 8) {
    const float t_1 = in0[group_x * 200 + local_x + 192];
    h0[6] = t_1;
  }
  top[0] = -__int_as_float(0x7f800000);
  #pragma unroll
  for (int un_1 = 0; un_1 < 6; ++un_1) {
    const float t_2 = h0[un_1];
    const int bits = __float_as_int(top[0]);
    top[0] = t_2 < top[0] || 2139095040 < (bits & 2147483647) ? top[0] : t_2;
  }
  if (local_x < 8) {
    const float t_3 = h0[6];
    const int bits_1 = __float_as_int(top[0]);
    top[0] = t_3 < top[0] || 2139095040 < (bits_1 & 2147483647) ? top[0] : t_3;
  }
  other[0] = __shfl_xor_sync(4294967295u, top[0], 16);
  const int bits_2 = __float_as_int(top[0]);
  top[0] = other[0] < top[0] || 2139095040 < (bits_2 & 2147483647) ? top[0] : other[0];
  other[0] = __shfl_xor_sync(4294967295u, top[0], 8);
  const int bits_3 = __float_as_int(top[0]);
  top[0] = other[0] < top[0] || 2139095040 < (bits_3 & 2147483647) ? top[0] : other[0];
  other[0] = __shfl_xor_sync(4294967295u, top[0], 4);
  const int bits_4 = __float_as_int(top[0]);
  top[0] = other[0] < top[0] || 2139095040 < (bits_4 & 2147483647) ? top[0] : other[0];
  other[0] = __shfl_xor_sync(4294967295u, top[0], 2);
  const int bits_5 = __float_as_int(top[0]);
  top[0] = other[0] < top[0] || 2139095040 < (bits_5 & 2147483647) ? top[0] : other[0];
  other[0] = __shfl_xor_sync(4294967295u, top[0], 1);
  const int bits_6 = __float_as_int(top[0]);
  top[0] = other[0] < top[0] || 2139095040 < (bits_6 & 2147483647) ? top[0] : other[0];
  total[0] = 0.0f;
  #pragma unroll
  for (int un_2 = 0; un_2 < 6; ++un_2) {
    const float t_4 = h0[un_2];
    total[0] = total[0] + expf(t_4 - top[0]);
  }
  if (local_x < 8) {
    const float t_5 = h0[6];
    total[0] = total[0] + expf(t_5 - top[0]);
  }
  other_1[0] = __shfl_xor_sync(4294967295u, total[0], 16);
  total[0] = total[0] + other_1[0];
  other_1[0] = __shfl_xor_sync(4294967295u, total[0], 8);
  total[0] = total[0] + other_1[0];
  other_1[0] = __shfl_xor_sync(4294967295u, total[0], 4);
  total[0] = total[0] + other_1[0];
  other_1[0] = __shfl_xor_sync(4294967295u, total[0], 2);
  total[0] = total[0] + other_1[0];
  other_1[0] = __shfl_xor_sync(4294967295u, total[0], 1);
  total[0] = total[0] + other_1[0];
  #pragma unroll
  for (int un_3 = 0; un_3 < 6; ++un_3) {
    const float t_6 = h0[un_3];
    out[group_x * 200 + un_3 * 32 + local_x] = expf(t_6 - top[0]) / total[0];
  }
  if (local_x < 8) {
    const float t_7 = h0[6];
    out[group_x * 200 + local_x + 192] = expf(t_7 - top[0]) / total[0];
  }
}
