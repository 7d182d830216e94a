static void golden_kernel_0(const float *restrict in0, float *restrict out) {
  float state[1];
  float total[1];
  float powers[200];
  for (int32_t i = 0; i < 6; ++i) {
    state[0] = -INFINITY;
    total[0] = 0.0f;
    for (int32_t i_1 = 0; i_1 < 200; ++i_1) {
      const float t = in0[i * 200 + i_1];
      const int32_t bits = ((union { float from; int32_t to; }){state[0]}).to;
      state[0] = t < state[0] || 2139095040 < (bits & 2147483647) ? state[0] : t;
    }
    for (int32_t i_2 = 0; i_2 < 200; ++i_2) {
      powers[i_2] = expf(in0[i * 200 + i_2] - state[0]);
    }
    for (int32_t i_3 = 0; i_3 < 200; ++i_3) {
      total[0] = total[0] + powers[i_3];
    }
    for (int32_t i_4 = 0; i_4 < 200; ++i_4) {
      out[i * 200 + i_4] = powers[i_4] / total[0];
    }
  }
}

int golden(const void *parameters, void *workspace, const float *in_x, float *out_y) {
  (void)parameters, (void)workspace, (void)in_x;
  copy_strided((char *)(uintptr_t)in_x, ((char *)workspace + 0) + 0, 4, 2, (int64_t[]){6, 200}, (int64_t[]){800, 4}, 0);
  golden_kernel_0((float *)((char *)workspace + 0) + 0, (float *)((char *)workspace + 4800) + 0);
  copy_strided((char *)out_y, ((char *)workspace + 4800) + 0, 4, 2, (int64_t[]){6, 200}, (int64_t[]){800, 4}, 1);
  return 0;
}
