static void golden_kernel_0(float *restrict out) {
  for (int32_t i = 0; i < 8; ++i) {
    for (int32_t i_1 = 0; i_1 < 16; ++i_1) {
      out[i * 256 + i_1] = 0.0f;
    }
  }
  for (int32_t i_2 = 0; i_2 < 8; ++i_2) {
    for (int32_t i_3 = 0; i_3 < 16; ++i_3) {
      out[i_2 * 256 + i_3 + 240] = 0.0f;
    }
  }
  for (int32_t i_4 = 0; i_4 < 8; ++i_4) {
    for (int32_t i_5 = 0; i_5 < 16; ++i_5) {
      out[i_4 * 256 + i_5 * 16] = 0.0f;
    }
  }
  for (int32_t i_6 = 0; i_6 < 8; ++i_6) {
    for (int32_t i_7 = 0; i_7 < 16; ++i_7) {
      out[i_6 * 256 + i_7 * 16 + 15] = 0.0f;
    }
  }
}

static void golden_kernel_1(const float *restrict in0, const float *restrict packed, const float *restrict in2, float *restrict out) {
  float total[10];
  float total_1[8];
  for (int32_t i = 0; i < 14; ++i) {
    for (int32_t i_1 = 0; i_1 < 3; ++i_1) {
      if (i_1 < 2) {
        for (int32_t i_2 = 0; i_2 < 8; ++i_2) {
          total[0] = 0.0f;
          total[1] = 0.0f;
          total[2] = 0.0f;
          total[3] = 0.0f;
          total[4] = 0.0f;
          total[5] = 0.0f;
          total[6] = 0.0f;
          total[7] = 0.0f;
          total[8] = 0.0f;
          total[9] = 0.0f;
          for (int32_t i_3 = 0; i_3 < 3; ++i_3) {
            for (int32_t i_4 = 0; i_4 < 8; ++i_4) {
              for (int32_t i_5 = 0; i_5 < 3; ++i_5) {
                total[0] = total[0] + in0[i_4 * 256 + i * 16 + i_5 * 16 + i_1 * 5 + i_3] * packed[i_2 * 144 + i_3 * 48 + i_4 * 6 + i_5 * 2];
                total[1] = total[1] + in0[i_4 * 256 + i * 16 + i_5 * 16 + i_1 * 5 + i_3] * packed[i_2 * 144 + i_3 * 48 + i_4 * 6 + i_5 * 2 + 1];
                total[2] = total[2] + in0[i_4 * 256 + i * 16 + i_5 * 16 + i_1 * 5 + i_3 + 1] * packed[i_2 * 144 + i_3 * 48 + i_4 * 6 + i_5 * 2];
                total[3] = total[3] + in0[i_4 * 256 + i * 16 + i_5 * 16 + i_1 * 5 + i_3 + 1] * packed[i_2 * 144 + i_3 * 48 + i_4 * 6 + i_5 * 2 + 1];
                total[4] = total[4] + in0[i_4 * 256 + i * 16 + i_5 * 16 + i_1 * 5 + i_3 + 2] * packed[i_2 * 144 + i_3 * 48 + i_4 * 6 + i_5 * 2];
                total[5] = total[5] + in0[i_4 * 256 + i * 16 + i_5 * 16 + i_1 * 5 + i_3 + 2] * packed[i_2 * 144 + i_3 * 48 + i_4 * 6 + i_5 * 2 + 1];
                total[6] = total[6] + in0[i_4 * 256 + i * 16 + i_5 * 16 + i_1 * 5 + i_3 + 3] * packed[i_2 * 144 + i_3 * 48 + i_4 * 6 + i_5 * 2];
                total[7] = total[7] + in0[i_4 * 256 + i * 16 + i_5 * 16 + i_1 * 5 + i_3 + 3] * packed[i_2 * 144 + i_3 * 48 + i_4 * 6 + i_5 * 2 + 1];
                total[8] = total[8] + in0[i_4 * 256 + i * 16 + i_5 * 16 + i_1 * 5 + i_3 + 4] * packed[i_2 * 144 + i_3 * 48 + i_4 * 6 + i_5 * 2];
                total[9] = total[9] + in0[i_4 * 256 + i * 16 + i_5 * 16 + i_1 * 5 + i_3 + 4] * packed[i_2 * 144 + i_3 * 48 + i_4 * 6 + i_5 * 2 + 1];
              }
            }
          }
          for (int32_t i_6 = 0; i_6 < 5; ++i_6) {
            const float t = total[i_6 * 2];
            const float t_1 = in2[i_2 * 2];
            const float t_2 = t + t_1;
            out[i * 224 + i_1 * 80 + i_6 * 16 + i_2 * 2] = t_2 < 0.0f ? 0.0f : t_2;
            const float t_3 = total[i_6 * 2 + 1];
            const float t_4 = in2[i_2 * 2 + 1];
            const float t_5 = t_3 + t_4;
            out[i * 224 + i_1 * 80 + i_6 * 16 + i_2 * 2 + 1] = t_5 < 0.0f ? 0.0f : t_5;
          }
        }
      } else {
        for (int32_t i_7 = 0; i_7 < 8; ++i_7) {
          total_1[0] = 0.0f;
          total_1[1] = 0.0f;
          total_1[2] = 0.0f;
          total_1[3] = 0.0f;
          total_1[4] = 0.0f;
          total_1[5] = 0.0f;
          total_1[6] = 0.0f;
          total_1[7] = 0.0f;
          for (int32_t i_8 = 0; i_8 < 3; ++i_8) {
            for (int32_t i_9 = 0; i_9 < 8; ++i_9) {
              for (int32_t i_10 = 0; i_10 < 3; ++i_10) {
                total_1[0] = total_1[0] + in0[i_9 * 256 + i * 16 + i_10 * 16 + i_1 * 5 + i_8] * packed[i_7 * 144 + i_8 * 48 + i_9 * 6 + i_10 * 2];
                total_1[1] = total_1[1] + in0[i_9 * 256 + i * 16 + i_10 * 16 + i_1 * 5 + i_8] * packed[i_7 * 144 + i_8 * 48 + i_9 * 6 + i_10 * 2 + 1];
                total_1[2] = total_1[2] + in0[i_9 * 256 + i * 16 + i_10 * 16 + i_1 * 5 + i_8 + 1] * packed[i_7 * 144 + i_8 * 48 + i_9 * 6 + i_10 * 2];
                total_1[3] = total_1[3] + in0[i_9 * 256 + i * 16 + i_10 * 16 + i_1 * 5 + i_8 + 1] * packed[i_7 * 144 + i_8 * 48 + i_9 * 6 + i_10 * 2 + 1];
                total_1[4] = total_1[4] + in0[i_9 * 256 + i * 16 + i_10 * 16 + i_1 * 5 + i_8 + 2] * packed[i_7 * 144 + i_8 * 48 + i_9 * 6 + i_10 * 2];
                total_1[5] = total_1[5] + in0[i_9 * 256 + i * 16 + i_10 * 16 + i_1 * 5 + i_8 + 2] * packed[i_7 * 144 + i_8 * 48 + i_9 * 6 + i_10 * 2 + 1];
                total_1[6] = total_1[6] + in0[i_9 * 256 + i * 16 + i_10 * 16 + i_1 * 5 + i_8 + 3] * packed[i_7 * 144 + i_8 * 48 + i_9 * 6 + i_10 * 2];
                total_1[7] = total_1[7] + in0[i_9 * 256 + i * 16 + i_10 * 16 + i_1 * 5 + i_8 + 3] * packed[i_7 * 144 + i_8 * 48 + i_9 * 6 + i_10 * 2 + 1];
              }
            }
          }
          for (int32_t i_11 = 0; i_11 < 4; ++i_11) {
            const float t_6 = total_1[i_11 * 2];
            const float t_7 = in2[i_7 * 2];
            const float t_8 = t_6 + t_7;
            out[i * 224 + i_1 * 80 + i_11 * 16 + i_7 * 2] = t_8 < 0.0f ? 0.0f : t_8;
            const float t_9 = total_1[i_11 * 2 + 1];
            const float t_10 = in2[i_7 * 2 + 1];
            const float t_11 = t_9 + t_10;
            out[i * 224 + i_1 * 80 + i_11 * 16 + i_7 * 2 + 1] = t_11 < 0.0f ? 0.0f : t_11;
          }
        }
      }
    }
  }
}

int golden(const void *parameters, void *workspace, const float *in_x, float *out_y) {
  (void)parameters, (void)workspace, (void)in_x;
  for (int64_t i = 0; i < 1; ++i) memcpy(((char *)workspace + 20736) + i * 4, (unsigned char[]){0, 0, 0, 0}, 4);
  copy_strided((char *)(uintptr_t)in_x, ((char *)workspace + 12544) + 68, 4, 3, (int64_t[]){8, 14, 14}, (int64_t[]){1024, 64, 4}, 0);
  golden_kernel_0((float *)((char *)workspace + 12544) + 0);
  golden_kernel_1((float *)((char *)workspace + 12544) + 0, (float *)((char *)(uintptr_t)parameters + 64) + 0, (float *)((char *)(uintptr_t)parameters + 0) + 0, (float *)((char *)workspace + 0) + 0);
  copy_strided((char *)out_y, ((char *)workspace + 0) + 0, 4, 3, (int64_t[]){16, 14, 14}, (int64_t[]){4, 896, 64}, 1);
  return 0;
}
