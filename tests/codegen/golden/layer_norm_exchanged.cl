__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void step_0(__global const float* restrict in0, __global float* restrict out) {
  const int local_x = (int)get_local_id(0);
  float h0[9] __attribute__((aligned(4)));
  float total[1] __attribute__((aligned(4)));
  __local float totals_float32[128] __attribute__((aligned(16)));
  float total_1[1] __attribute__((aligned(4)));
  #pragma unroll
  for (int un = 0; un < 8; ++un) {
    const float t = in0[((local_x >> 3) < 8 ? (local_x >> 3) : 8) * 70 + un * 8 + (local_x & 7)];
    h0[un] = t;
  }
  if ((local_x & 7) < 6) {
    const float t_1 = in0[((local_x >> 3) < 8 ? (local_x >> 3) : 8) * 70 + (local_x & 7) + 64];
    h0[8] = t_1;
  }
  total[0] = 0.0f;
  #pragma unroll
  for (int un_1 = 0; un_1 < 8; ++un_1) {
    const float t_2 = h0[un_1];
    total[0] = total[0] + t_2;
  }
  if ((local_x & 7) < 6) {
    const float t_3 = h0[8];
    total[0] = total[0] + t_3;
  }
  totals_float32[local_x] = total[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  if ((local_x & 7) < 4) {
    totals_float32[local_x] = totals_float32[local_x] + totals_float32[local_x + 4];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if ((local_x & 7) < 2) {
    totals_float32[local_x] = totals_float32[local_x] + totals_float32[local_x + 2];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if ((local_x & 7) < 1) {
    totals_float32[local_x] = totals_float32[local_x] + totals_float32[local_x + 1];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  total[0] = totals_float32[local_x - (local_x & 7)];
  total_1[0] = 0.0f;
  #pragma unroll
  for (int un_2 = 0; un_2 < 8; ++un_2) {
    const float t_4 = h0[un_2];
    const float t_5 = total[0] / 70.0f;
    total_1[0] = total_1[0] + (t_4 - t_5) * (t_4 - t_5);
  }
  if ((local_x & 7) < 6) {
    const float t_6 = h0[8];
    const float t_7 = total[0] / 70.0f;
    total_1[0] = total_1[0] + (t_6 - t_7) * (t_6 - t_7);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  totals_float32[local_x] = total_1[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  if ((local_x & 7) < 4) {
    totals_float32[local_x] = totals_float32[local_x] + totals_float32[local_x + 4];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if ((local_x & 7) < 2) {
    totals_float32[local_x] = totals_float32[local_x] + totals_float32[local_x + 2];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if ((local_x & 7) < 1) {
    totals_float32[local_x] = totals_float32[local_x] + totals_float32[local_x + 1];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  total_1[0] = totals_float32[local_x - (local_x & 7)];
  if (local_x < 72) {
    #pragma unroll
    for (int un_3 = 0; un_3 < 8; ++un_3) {
      const float t_8 = h0[un_3];
      const float t_9 = total[0] / 70.0f;
      const float t_10 = total_1[0] / 70.0f;
      out[(local_x >> 3) * 70 + un_3 * 8 + (local_x & 7)] = (t_8 - t_9) / sqrt(t_10 + 1e-05f);
    }
    if ((local_x & 7) < 6) {
      const float t_11 = h0[8];
      const float t_12 = total[0] / 70.0f;
      const float t_13 = total_1[0] / 70.0f;
      out[(local_x >> 3) * 70 + (local_x & 7) + 64] = (t_11 - t_12) / sqrt(t_13 + 1e-05f);
    }
  }
}
