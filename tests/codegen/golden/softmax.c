static int32_t golden_kernel_0(float* restrict in0_ptr, float* restrict out_ptr, float* restrict powers_ptr, float* restrict state_ptr, float* restrict total_ptr) {
  for (int32_t i = 0; i < 6; ++i) {
    state_ptr[0] = -INFINITY;
    total_ptr[0] = 0.000000e+00f;
    for (int32_t i_1 = 0; i_1 < 200; ++i_1) {
      float t = in0_ptr[((i * 200) + i_1)];
        float v_ = state_ptr[0];
      float condval;
      if ((t < state_ptr[0]) || (2139095040 < ((*(int32_t *)(&(v_))) & 2147483647))) {
        condval = state_ptr[0];
      } else {
        condval = t;
      }
      state_ptr[0] = condval;
    }
    for (int32_t i_2 = 0; i_2 < 200; ++i_2) {
      powers_ptr[i_2] = expf((in0_ptr[((i * 200) + i_2)] - state_ptr[0]));
    }
    for (int32_t i_3 = 0; i_3 < 200; ++i_3) {
      total_ptr[0] = (total_ptr[0] + powers_ptr[i_3]);
    }
    for (int32_t i_4 = 0; i_4 < 200; ++i_4) {
      out_ptr[((i * 200) + i_4)] = (powers_ptr[i_4] / total_ptr[0]);
    }
  }
  return 0;
}

int golden(const void *parameters, void *workspace, const float *in_x, float *out_y) {
  (void)parameters, (void)workspace, (void)in_x;
  copy_strided((char *)(uintptr_t)in_x, ((char *)workspace + 0) + 0, 4, 2, (int64_t[]){6, 200}, (int64_t[]){800, 4}, 0);
  golden_kernel_0((float *)((char *)workspace + 0) + 0, (float *)((char *)workspace + 4800) + 0, (float *)((char *)workspace + 9600), (float *)((char *)workspace + 10432), (float *)((char *)workspace + 10496));
  copy_strided((char *)out_y, ((char *)workspace + 4800) + 0, 4, 2, (int64_t[]){6, 200}, (int64_t[]){800, 4}, 1);
  return 0;
}
