// Neighbours in memory, loaded and stored at once.
template <typename Number, int COUNT>
struct alignas(COUNT & (COUNT - 1) ? alignof(Number) : sizeof(Number) * COUNT) lanes {
  Number at[COUNT];
};

// A launch may begin while the one before it ends: before it touches what others wrote, it waits.
static __device__ __forceinline__ int after_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  return 0;
}

extern "C" __global__ void __launch_bounds__(32) step_0(const float* __restrict__ packed, const float* in1, float* __restrict__ partial) {
  const int group_x = (int)blockIdx.x;
  const int group_y = (int)blockIdx.y;
  const int group_z = (int)blockIdx.z;
  const int local_x = (int)threadIdx.x;
  alignas(16) float total[4];
  __shared__ alignas(16) float local_[128];
  alignas(4) float run[1];
  alignas(16) float row[4];
  #pragma unroll
  for (int un = 0; un < 4; ++un) {
    total[un] = 0.0f;
  }
  if (local_x < 18) {
    *(lanes<float, 4>*)(local_ + (local_x * 4 + 48)) = *(lanes<float, 4>*)(packed + (group_y * 576 + group_z * 72 + local_x * 4));
  }
  after_earlier_kernels();
  #pragma unroll
  for (int un_1 = 0; un_1 < 2; ++un_1) {
    if (un_1 * 4 + (local_x >> 3) < 5) {
      local_[un_1 * 32 + local_x] = (((un_1 * 32 + local_x) % 10) >> 3) + (group_x & 1) < 2 && 1 <= (group_x & 1) * 8 + (un_1 * 32 + local_x) % 10 && (group_x & 1) * 8 + (un_1 * 32 + local_x) % 10 < 15 && 1 <= (group_x >> 1) * 2 + (un_1 * 16 + (local_x >> 1)) / 5 && (group_x >> 1) * 2 + (un_1 * 16 + (local_x >> 1)) / 5 < 15 ? in1[group_z * 196 + (group_x >> 1) * 28 + (un_1 * 16 + (local_x >> 1)) / 5 * 14 + (group_x & 1) * 8 + (un_1 * 32 + local_x) % 10 - 15] : 0.0f;
    }
  }
  __syncthreads();
  #pragma unroll
  for (int un_2 = 0; un_2 < 3; ++un_2) {
    #pragma unroll
    for (int un_3 = 0; un_3 < 3; ++un_3) {
      run[0] = local_[(local_x >> 4) * 10 + un_2 * 10 + ((local_x & 15) >> 1) + un_3];
      *(lanes<float, 4>*)row = *(lanes<float, 4>*)(local_ + (un_2 * 24 + un_3 * 8 + (local_x & 1) * 4 + 48));
      #pragma unroll
      for (int un_4 = 0; un_4 < 4; ++un_4) {
        total[un_4] = total[un_4] + row[un_4] * run[0];
      }
    }
  }
  if ((group_x & 1) * 4 + ((local_x & 15) >> 2) < 7) {
    *(lanes<float, 4>*)(partial + (group_z * 3136 + (group_x >> 1) * 448 + (local_x >> 4) * 224 + (group_x & 1) * 128 + ((local_x & 15) >> 1) * 16 + group_y * 8 + (local_x & 1) * 4)) = *(lanes<float, 4>*)total;
  }
}

extern "C" __global__ void __launch_bounds__(128) step_0_sum(const float* partial, const float* in1, float* __restrict__ out) {
  after_earlier_kernels();
  const int group_x = (int)blockIdx.x;
  const int local_x = (int)threadIdx.x;
  alignas(16) float total[4];
  __shared__ alignas(16) float tile[528];
  alignas(4) float values[4];
  *(lanes<float, 4>*)total = lanes<float, 4>{0.0f, 0.0f, 0.0f, 0.0f};
  if (group_x * 8 + (local_x >> 4) < 49) {
    #pragma unroll
    for (int un = 0; un < 8; ++un) {
      const lanes<float, 4> v = *(lanes<float, 4>*)total;
      const lanes<float, 4> v_1 = *(lanes<float, 4>*)(partial + (un * 3136 + group_x * 512 + local_x * 4));
      *(lanes<float, 4>*)total = lanes<float, 4>{v.at[0] + v_1.at[0], v.at[1] + v_1.at[1], v.at[2] + v_1.at[2], v.at[3] + v_1.at[3]};
    }
  }
  #pragma unroll
  for (int un_1 = 0; un_1 < 4; ++un_1) {
    tile[(local_x & 3) * 132 + un_1 * 33 + (local_x >> 2)] = total[un_1];
  }
  __syncthreads();
  #pragma unroll
  for (int un_2 = 0; un_2 < 4; ++un_2) {
    if (group_x * 8 + un_2 * 2 + (local_x >> 6) < 49) {
      const float t = tile[(local_x & 15) * 33 + un_2 * 8 + (local_x >> 4)];
      const float t_1 = in1[local_x & 15];
      values[un_2] = t + t_1 < 0.0f ? 0.0f : t + t_1;
    }
  }
  #pragma unroll
  for (int un_3 = 0; un_3 < 4; ++un_3) {
    if (group_x * 8 + un_3 * 2 + (local_x >> 6) < 49) {
      out[group_x * 512 + un_3 * 128 + local_x] = values[un_3];
    }
  }
}
