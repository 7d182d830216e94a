__kernel __attribute__((reqd_work_group_size(28, 1, 1))) void step_0(__global float* restrict in1_ptr, __global float* restrict in2_ptr, __global float* restrict out_ptr, __global float* restrict packed_ptr) {
  const int group_x = (int)get_group_id(0);
  const int local_x = (int)get_local_id(0);
  float total_ptr[16];
  __local float local_ptr[1584] __attribute__((aligned(16)));
  float run_ptr[6];
  float row_ptr[4] __attribute__((aligned(16)));
  #pragma unroll
  for (int un = 0; un < 16; ++un) {
    total_ptr[un] = 0.000000e+00f;
  }
  #pragma unroll
  for (int un_1 = 0; un_1 < 11; ++un_1) {
    if (((un_1 * 7) + (local_x >> 2)) < 72) {
      *(__local float4*)(local_ptr + (((un_1 * 112) + (local_x * 4)) + 432)) = *(__global float4*)(packed_ptr + ((un_1 * 112) + (local_x * 4)));
    }
  }
  #pragma unroll
  for (int un_2 = 0; un_2 < 2; ++un_2) {
    if (((un_2 * 14) + (local_x >> 1)) < 27) {
      #pragma unroll
      for (int un_3 = 0; un_3 < 8; ++un_3) {
        float condval;
        if (((((((((un_2 * 28) + local_x) / 36) + (group_x >> 1)) < 4) && (1 <= (((group_x & 1) * 7) + (((un_2 * 28) + local_x) % 9)))) && ((((group_x & 1) * 7) + (((un_2 * 28) + local_x) % 9)) < 15)) && (1 <= (((group_x >> 1) * 4) + (((un_2 * 28) + local_x) / 9)))) && ((((group_x >> 1) * 4) + (((un_2 * 28) + local_x) / 9)) < 15)) {
          condval = in1_ptr[((((((un_3 * 196) + ((group_x >> 1) * 56)) + ((((un_2 * 28) + local_x) / 9) * 14)) + ((group_x & 1) * 7)) + (((un_2 * 28) + local_x) % 9)) - 15)];
        } else {
          condval = 0.000000e+00f;
        }
        local_ptr[(((un_3 * 54) + ((((un_2 * 28) + local_x) % 9) * 6)) + (((un_2 * 28) + local_x) / 9))] = condval;
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < 8; ++i) {
    #pragma unroll
    for (int un_4 = 0; un_4 < 3; ++un_4) {
      #pragma unroll
      for (int un_5 = 0; un_5 < 6; ++un_5) {
        run_ptr[un_5] = local_ptr[((((i * 54) + (un_4 * 6)) + ((local_x % 7) * 6)) + un_5)];
      }
      #pragma unroll
      for (int un_6 = 0; un_6 < 3; ++un_6) {
        *(float4*)(row_ptr + 0) = *(__local float4*)(local_ptr + (((((i * 144) + (un_6 * 48)) + (un_4 * 16)) + ((local_x / 7) * 4)) + 432));
        #pragma unroll
        for (int un_7 = 0; un_7 < 4; ++un_7) {
          #pragma unroll
          for (int un_8 = 0; un_8 < 4; ++un_8) {
            total_ptr[((un_7 * 4) + un_8)] = (total_ptr[((un_7 * 4) + un_8)] + (row_ptr[un_7] * run_ptr[(un_8 + un_6)]));
          }
        }
      }
    }
  }
  #pragma unroll
  for (int un_9 = 0; un_9 < 4; ++un_9) {
    #pragma unroll
    for (int un_10 = 0; un_10 < 4; ++un_10) {
      if ((((group_x >> 1) * 2) + (un_10 >> 1)) < 7) {
        float t = total_ptr[((un_9 * 4) + un_10)];
        float t_1 = in2_ptr[(((local_x / 7) * 4) + un_9)];
        float t_2 = (t + t_1);
        total_ptr[((un_9 * 4) + un_10)] = (((convert_int(((t + t_1) < 0.000000e+00f)))) ? (0.000000e+00f) : ((t + t_1)));
      }
    }
  }
  #pragma unroll
  for (int un_11 = 0; un_11 < 4; ++un_11) {
    #pragma unroll
    for (int un_12 = 0; un_12 < 4; ++un_12) {
      if ((((group_x >> 1) * 2) + (un_12 >> 1)) < 7) {
        out_ptr[(((((((local_x / 7) * 784) + (un_11 * 196)) + ((group_x >> 1) * 56)) + (un_12 * 14)) + ((group_x & 1) * 7)) + (local_x % 7))] = total_ptr[((un_11 * 4) + un_12)];
      }
    }
  }
}
