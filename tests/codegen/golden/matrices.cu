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

extern "C" __global__ void __launch_bounds__(64) step_0(const float* __restrict__ packed, const float* in1, float* __restrict__ partial) {
  const int group_x = (int)blockIdx.x;
  const int group_y = (int)blockIdx.y;
  const int group_z = (int)blockIdx.z;
  const int local_x = (int)threadIdx.x;
  alignas(4) float total[16];
  __shared__ alignas(16) float local_[2048];
  alignas(4) float run[4];
  alignas(16) float row[4];
  #pragma unroll
  for (int un = 0; un < 16; ++un) {
    total[un] = 0.0f;
  }
  #pragma unroll
  for (int un_1 = 0; un_1 < 4; ++un_1) {
    *(lanes<float, 4>*)(local_ + (un_1 * 256 + local_x * 4 + 1024)) = *(lanes<float, 4>*)(packed + (group_y * 2048 + group_z * 1024 + un_1 * 256 + local_x * 4));
  }
  after_earlier_kernels();
  #pragma unroll
  for (int un_2 = 0; un_2 < 16; ++un_2) {
    local_[(local_x & 31) * 32 + un_2 * 2 + (local_x >> 5)] = in1[group_x * 2048 + un_2 * 128 + (local_x >> 5) * 64 + group_z * 32 + (local_x & 31)];
  }
  __syncthreads();
  for (int i = 0; i < 32; ++i) {
    #pragma unroll
    for (int un_3 = 0; un_3 < 4; ++un_3) {
      run[un_3] = local_[i * 32 + (local_x >> 3) * 4 + un_3];
    }
    *(lanes<float, 4>*)row = *(lanes<float, 4>*)(local_ + (i * 32 + (local_x & 7) * 4 + 1024));
    #pragma unroll
    for (int un_4 = 0; un_4 < 4; ++un_4) {
      #pragma unroll
      for (int un_5 = 0; un_5 < 4; ++un_5) {
        total[un_4 * 4 + un_5] = total[un_4 * 4 + un_5] + row[un_4] * run[un_5];
      }
    }
  }
  #pragma unroll
  for (int un_6 = 0; un_6 < 4; ++un_6) {
    *(lanes<float, 4>*)(partial + (group_z * 24576 + group_x * 3072 + (local_x >> 3) * 384 + un_6 * 96 + group_y * 32 + (local_x & 7) * 4)) = lanes<float, 4>{total[un_6], total[un_6 + 4 * 1], total[un_6 + 4 * 2], total[un_6 + 4 * 3]};
  }
}

extern "C" __global__ void __launch_bounds__(128) step_0_sum(const float* partial, float* __restrict__ out) {
  after_earlier_kernels();
  const int group_x = (int)blockIdx.x;
  const int group_y = (int)blockIdx.y;
  const int local_x = (int)threadIdx.x;
  alignas(16) float total[4];
  __shared__ alignas(16) float tile[544];
  alignas(4) float values[4];
  *(lanes<float, 4>*)total = lanes<float, 4>{0.0f, 0.0f, 0.0f, 0.0f};
  #pragma unroll
  for (int un = 0; un < 2; ++un) {
    const lanes<float, 4> v = *(lanes<float, 4>*)total;
    const lanes<float, 4> v_1 = *(lanes<float, 4>*)(partial + (un * 24576 + group_x * 1536 + (local_x >> 3) * 96 + group_y * 32 + (local_x & 7) * 4));
    *(lanes<float, 4>*)total = lanes<float, 4>{v.at[0] + v_1.at[0], v.at[1] + v_1.at[1], v.at[2] + v_1.at[2], v.at[3] + v_1.at[3]};
  }
  #pragma unroll
  for (int un_1 = 0; un_1 < 4; ++un_1) {
    tile[(local_x & 7) * 68 + un_1 * 17 + (local_x >> 3)] = total[un_1];
  }
  __syncthreads();
  #pragma unroll
  for (int un_2 = 0; un_2 < 4; ++un_2) {
    const float t = tile[(local_x & 31) * 17 + un_2 * 4 + (local_x >> 5)];
    values[un_2] = t < 0.0f ? 0.0f : t;
  }
  #pragma unroll
  for (int un_3 = 0; un_3 < 4; ++un_3) {
    out[group_x * 1536 + un_3 * 384 + (local_x >> 5) * 96 + group_y * 32 + (local_x & 31)] = values[un_3];
  }
}
