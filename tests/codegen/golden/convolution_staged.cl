__kernel __attribute__((reqd_work_group_size(28, 1, 1))) void step_0(__global const float* restrict packed, __global const float* restrict in1, __global const float* restrict in2, __global float* restrict out) {
  const int group_x = (int)get_group_id(0);
  const int local_x = (int)get_local_id(0);
  float total[16] __attribute__((aligned(4)));
  __local float local_[1584] __attribute__((aligned(16)));
  float run[6] __attribute__((aligned(4)));
  float row[4] __attribute__((aligned(16)));
  #pragma unroll
  for (int un = 0; un < 16; ++un) {
    total[un] = 0.0f;
  }
  #pragma unroll
  for (int un_1 = 0; un_1 < 11; ++un_1) {
    if (un_1 * 7 + (local_x >> 2) < 72) {
      *(__local float4*)(local_ + (un_1 * 112 + local_x * 4 + 432)) = *(__global float4*)(packed + (un_1 * 112 + local_x * 4));
    }
  }
  #pragma unroll
  for (int un_2 = 0; un_2 < 2; ++un_2) {
    if (un_2 * 14 + (local_x >> 1) < 27) {
      #pragma unroll
      for (int un_3 = 0; un_3 < 8; ++un_3) {
        local_[un_3 * 54 + (un_2 * 28 + local_x) % 9 * 6 + (un_2 * 28 + local_x) / 9] = (un_2 * 28 + local_x) / 36 + (group_x >> 1) < 4 && 1 <= (group_x & 1) * 7 + (un_2 * 28 + local_x) % 9 && (group_x & 1) * 7 + (un_2 * 28 + local_x) % 9 < 15 && 1 <= (group_x >> 1) * 4 + (un_2 * 28 + local_x) / 9 && (group_x >> 1) * 4 + (un_2 * 28 + local_x) / 9 < 15 ? in1[un_3 * 196 + (group_x >> 1) * 56 + (un_2 * 28 + local_x) / 9 * 14 + (group_x & 1) * 7 + (un_2 * 28 + local_x) % 9 - 15] : 0.0f;
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < 8; ++i) {
    #pragma unroll
    for (int un_4 = 0; un_4 < 3; ++un_4) {
      #pragma unroll
      for (int un_5 = 0; un_5 < 6; ++un_5) {
        run[un_5] = local_[i * 54 + un_4 * 6 + local_x % 7 * 6 + un_5];
      }
      #pragma unroll
      for (int un_6 = 0; un_6 < 3; ++un_6) {
        *(float4*)row = *(__local float4*)(local_ + (i * 144 + un_6 * 48 + un_4 * 16 + local_x / 7 * 4 + 432));
        #pragma unroll
        for (int un_7 = 0; un_7 < 4; ++un_7) {
          #pragma unroll
          for (int un_8 = 0; un_8 < 4; ++un_8) {
            total[un_7 * 4 + un_8] = total[un_7 * 4 + un_8] + row[un_7] * run[un_8 + un_6];
          }
        }
      }
    }
  }
  #pragma unroll
  for (int un_9 = 0; un_9 < 4; ++un_9) {
    #pragma unroll
    for (int un_10 = 0; un_10 < 4; ++un_10) {
      if ((group_x >> 1) * 2 + (un_10 >> 1) < 7) {
        const float t = total[un_9 * 4 + un_10];
        const float t_1 = in2[local_x / 7 * 4 + un_9];
        total[un_9 * 4 + un_10] = t + t_1 < 0.0f ? 0.0f : t + t_1;
      }
    }
  }
  #pragma unroll
  for (int un_11 = 0; un_11 < 4; ++un_11) {
    #pragma unroll
    for (int un_12 = 0; un_12 < 4; ++un_12) {
      if ((group_x >> 1) * 2 + (un_12 >> 1) < 7) {
        out[local_x / 7 * 784 + un_11 * 196 + (group_x >> 1) * 56 + un_12 * 14 + (group_x & 1) * 7 + local_x % 7] = total[un_11 * 4 + un_12];
      }
    }
  }
}
