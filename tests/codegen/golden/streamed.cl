__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void step_0(__global const float* restrict in0, __global const float* restrict in1, __global const float* restrict in2, __global float* restrict out) {
  const int group_x = (int)get_group_id(0);
  const int group_y = (int)get_group_id(1);
  const int local_x = (int)get_local_id(0);
  float sums[1] __attribute__((aligned(4)));
  float top[1] __attribute__((aligned(4)));
  float total[1] __attribute__((aligned(4)));
  __local float rows[128] __attribute__((aligned(16)));
  __local float columns[144] __attribute__((aligned(16)));
  __local float values[128] __attribute__((aligned(16)));
  __local float scores[272] __attribute__((aligned(16)));
  float step[1] __attribute__((aligned(4)));
  __local float parts[256] __attribute__((aligned(16)));
  __local float factors[16] __attribute__((aligned(16)));
  float made[1] __attribute__((aligned(4)));
  float left[1] __attribute__((aligned(4)));
  float right[1] __attribute__((aligned(4)));
  float reference[1] __attribute__((aligned(4)));
  float factor[1] __attribute__((aligned(4)));
  float value[1] __attribute__((aligned(4)));
  float totals[1] __attribute__((aligned(4)));
  sums[0] = 0.0f;
  top[0] = -INFINITY;
  total[0] = 0.0f;
  if (local_x < 128) {
    rows[local_x] = in0[group_y * 264 + (group_x * 16 + (local_x >> 3) < 32 ? group_x * 16 + (local_x >> 3) : 32) * 8 + (local_x & 7)];
  }
  for (int i = 0; i < 3; ++i) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (local_x < 128) {
      columns[(local_x >> 3) * 9 + (local_x & 7)] = in1[group_y * 264 + (i * 16 + (local_x >> 3) < 32 ? i * 16 + (local_x >> 3) : 32) * 8 + (local_x & 7)];
    }
    if (local_x < 128) {
      values[local_x] = in2[group_y * 264 + (i * 16 + (local_x >> 3) < 32 ? i * 16 + (local_x >> 3) : 32) * 8 + (local_x & 7)];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    made[0] = 0.0f;
    for (int i_1 = 0; i_1 < 8; ++i_1) {
      left[0] = rows[(local_x >> 4) * 8 + i_1];
      right[0] = columns[(local_x & 15) * 9 + i_1];
      made[0] = made[0] + left[0] * right[0];
    }
    if (i * 16 + (local_x & 15) < 33) {
      const float t = made[0];
      scores[(local_x >> 4) * 17 + (local_x & 15)] = t;
    } else {
      scores[(local_x >> 4) * 17 + (local_x & 15)] = -INFINITY;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    step[0] = -INFINITY;
    const int bits = as_int(step[0]);
    step[0] = scores[(local_x >> 4) * 17 + (local_x & 15)] < step[0] || 2139095040 < (bits & 2147483647) ? step[0] : scores[(local_x >> 4) * 17 + (local_x & 15)];
    parts[local_x] = step[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    reference[0] = top[0];
    #pragma unroll
    for (int un = 0; un < 16; ++un) {
      const int bits_1 = as_int(reference[0]);
      reference[0] = parts[(local_x >> 4) * 16 + un] < reference[0] || 2139095040 < (bits_1 & 2147483647) ? reference[0] : parts[(local_x >> 4) * 16 + un];
    }
    step[0] = reference[0] == -INFINITY ? 0.0f : reference[0];
    top[0] = exp(top[0] - step[0]);
    total[0] = total[0] * top[0];
    if (local_x % 16 == 0) {
      factors[local_x >> 4] = top[0];
    }
    top[0] = reference[0];
    scores[(local_x >> 4) * 17 + (local_x & 15)] = exp(scores[(local_x >> 4) * 17 + (local_x & 15)] - step[0]);
    total[0] = total[0] + scores[(local_x >> 4) * 17 + (local_x & 15)];
    barrier(CLK_LOCAL_MEM_FENCE);
    sums[0] = sums[0] * factors[local_x >> 4];
    for (int i_2 = 0; i_2 < 16; ++i_2) {
      factor[0] = scores[(local_x >> 4) * 17 + i_2];
      value[0] = values[i_2 * 8 + ((local_x & 15) < 7 ? (local_x & 15) : 7)];
      sums[0] = sums[0] + factor[0] * value[0];
    }
  }
  parts[local_x] = total[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  totals[0] = 0.0f;
  #pragma unroll
  for (int un_1 = 0; un_1 < 16; ++un_1) {
    totals[0] = totals[0] + parts[(local_x >> 4) * 16 + un_1];
  }
  if (group_x * 16 + (local_x >> 4) < 33 && (local_x & 15) < 8) {
    out[group_y * 264 + group_x * 128 + (local_x >> 4) * 8 + (local_x & 15)] = sums[0] / totals[0];
  }
}
