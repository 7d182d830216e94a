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

extern "C" __global__ void __launch_bounds__(128) step_0(const float* in0, float* __restrict__ out) {
  after_earlier_kernels();
  const int group_x = (int)blockIdx.x;
  const int local_x = (int)threadIdx.x;
  alignas(4) float v0[16];
  alignas(16) float v1[16];
  if (group_x * 16 + (local_x >> 3) < 49) {
    const float t = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2];
    v0[0] = t;
    const float t_1 = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2 + 1];
    v0[1] = t_1;
    const float t_2 = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2 + 2];
    v0[2] = t_2;
    const float t_3 = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2 + 3];
    v0[3] = t_3;
    const float t_4 = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2 + 16];
    v0[4] = t_4;
    const float t_5 = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2 + 17];
    v0[5] = t_5;
    const float t_6 = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2 + 18];
    v0[6] = t_6;
    const float t_7 = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2 + 19];
    v0[7] = t_7;
    const float t_8 = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2 + 32];
    v0[8] = t_8;
    const float t_9 = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2 + 33];
    v0[9] = t_9;
    const float t_10 = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2 + 34];
    v0[10] = t_10;
    const float t_11 = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2 + 35];
    v0[11] = t_11;
    const float t_12 = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2 + 48];
    v0[12] = t_12;
    const float t_13 = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2 + 49];
    v0[13] = t_13;
    const float t_14 = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2 + 50];
    v0[14] = t_14;
    const float t_15 = in0[(group_x * 128 + local_x) / 49 * 256 + (group_x * 128 + local_x) % 49 / 7 * 32 + (group_x * 128 + local_x) % 7 * 2 + 51];
    v0[15] = t_15;
    v1[0] = v0[0] + v0[10] - v0[2] - v0[8];
    v1[1] = v0[1] + v0[2] - v0[9] - v0[10];
    v1[2] = v0[2] + v0[9] - v0[1] - v0[10];
    v1[3] = v0[1] + v0[11] - v0[3] - v0[9];
    v1[4] = v0[4] + v0[8] - v0[6] - v0[10];
    v1[5] = v0[5] + v0[6] + v0[9] + v0[10];
    v1[6] = v0[6] + v0[10] - v0[5] - v0[9];
    v1[7] = v0[5] + v0[9] - v0[7] - v0[11];
    v1[8] = v0[6] + v0[8] - v0[4] - v0[10];
    v1[9] = v0[9] + v0[10] - v0[5] - v0[6];
    v1[10] = v0[5] + v0[10] - v0[6] - v0[9];
    v1[11] = v0[7] + v0[9] - v0[5] - v0[11];
    v1[12] = v0[4] + v0[14] - v0[6] - v0[12];
    v1[13] = v0[5] + v0[6] - v0[13] - v0[14];
    v1[14] = v0[6] + v0[13] - v0[5] - v0[14];
    v1[15] = v0[5] + v0[15] - v0[7] - v0[13];
    *(lanes<float, 4>*)(out + (group_x * 2048 + local_x * 16)) = *(lanes<float, 4>*)v1;
    *(lanes<float, 4>*)(out + (group_x * 2048 + local_x * 16 + 4)) = *(lanes<float, 4>*)(v1 + 4);
    *(lanes<float, 4>*)(out + (group_x * 2048 + local_x * 16 + 8)) = *(lanes<float, 4>*)(v1 + 8);
    *(lanes<float, 4>*)(out + (group_x * 2048 + local_x * 16 + 12)) = *(lanes<float, 4>*)(v1 + 12);
  }
}
