// A launch may begin while the one before it ends: before it touches what others wrote, it waits.
static __device__ __forceinline__ int after_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  return 0;
}

extern "C" __global__ void __launch_bounds__(128) step_0(const unsigned short* in0, const unsigned short* in1, unsigned short* __restrict__ out) {
  after_earlier_kernels();
  const int group_x = (int)blockIdx.x;
  const int local_x = (int)threadIdx.x;
  alignas(4) float t[1];
  alignas(4) float t_1[1];
  t[0] = __uint_as_float((unsigned)in1[group_x * 128 + local_x] << 16u);
  t_1[0] = __uint_as_float((unsigned)in0[group_x * 128 + local_x] << 16u);
  const float whole = t[0] * t_1[0];
  t[0] = __uint_as_float((2139095040 < (__float_as_int(whole) & 2147483647) ? __float_as_uint(whole) | 4194304u : __float_as_uint(whole) + (32767u + ((__float_as_uint(whole) >> 16u) & 1u))) & 4294901760u);
  const float whole_1 = tanhf(t[0]);
  out[group_x * 128 + local_x] = (unsigned short)(__float_as_uint(__uint_as_float((2139095040 < (__float_as_int(whole_1) & 2147483647) ? __float_as_uint(whole_1) | 4194304u : __float_as_uint(whole_1) + (32767u + ((__float_as_uint(whole_1) >> 16u) & 1u))) & 4294901760u)) >> 16u);
}
