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

// Copies to shared memory in the background; zeros where there is nothing to copy.
static __device__ __forceinline__ int copy_async_4(void* to, const void* from, int there) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::
               "r"(place), "l"(from), "r"(there ? 4 : 0) : "memory");
  return 0;
}

// Copies to shared memory in the background; zeros where there is nothing to copy.
static __device__ __forceinline__ int copy_async_16(void* to, const void* from, int there) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::
               "r"(place), "l"(from), "r"(there ? 16 : 0) : "memory");
  return 0;
}

static __device__ __forceinline__ int copies_begun() {
  asm volatile("cp.async.commit_group;" ::: "memory");
  return 0;
}

static __device__ __forceinline__ int copies_done_0() {
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  return 0;
}

extern "C" __global__ void __launch_bounds__(384) step_0(const float* __restrict__ packed, const float* in1, float* __restrict__ out) {
  const int group_x = (int)blockIdx.x;
  const int group_y = (int)blockIdx.y;
  const int local_x = (int)threadIdx.x;
  alignas(4) float total[64];
  extern __shared__ __align__(128) unsigned char dynamic_local[];
  float* const local_ = (float*)dynamic_local;
  alignas(4) float run[16];
  alignas(16) float row[4];
  alignas(4) float values[16];
  alignas(4) float terms[4];
  #pragma unroll
  for (int un = 0; un < 64; ++un) {
    total[un] = 0.0f;
  }
  #pragma unroll
  for (int un_1 = 0; un_1 < 8; ++un_1) {
    copy_async_16(local_ + (un_1 * 1536 + local_x * 4 + 16384), packed + (group_y * 49152 + un_1 * 1536 + local_x * 4), 1);
  }
  after_earlier_kernels();
  #pragma unroll
  for (int un_2 = 0; un_2 < 22; ++un_2) {
    if (un_2 * 3 + (local_x >> 7) < 64) {
      copy_async_4(local_ + ((local_x & 127) * 64 + un_2 * 3 + (local_x >> 7)), in1 + (group_x * 32768 + un_2 * 1536 + (local_x >> 7) * 512 + (local_x & 127)), 1);
    }
  }
  copies_begun();
  for (int i = 0; i < 4; ++i) {
    copies_done_0();
    __syncthreads();
    if (i < 3) {
      #pragma unroll
      for (int un_3 = 0; un_3 < 22; ++un_3) {
        if (un_3 * 3 + (local_x >> 7) < 64) {
          copy_async_4(local_ + (((i + 1) & 1) * 8192 + (local_x & 127) * 64 + un_3 * 3 + (local_x >> 7)), in1 + (group_x * 32768 + un_3 * 1536 + (local_x >> 7) * 512 + i * 128 + (local_x & 127) + 128), 1);
        }
      }
      #pragma unroll
      for (int un_4 = 0; un_4 < 8; ++un_4) {
        copy_async_16(local_ + (((i + 1) & 1) * 12288 + un_4 * 1536 + local_x * 4 + 16384), packed + (group_y * 49152 + i * 12288 + un_4 * 1536 + local_x * 4 + 12288), 1);
      }
    }
    copies_begun();
    for (int i_1 = 0; i_1 < 32; ++i_1) {
      #pragma unroll
      for (int un_5 = 0; un_5 < 2; ++un_5) {
        #pragma unroll
        for (int un_6 = 0; un_6 < 8; ++un_6) {
          run[un_5 * 8 + un_6] = local_[(i & 1) * 8192 + i_1 * 256 + local_x / 96 * 64 + un_5 * 32 + local_x % 96 / 24 * 8 + un_6];
        }
      }
      *(lanes<float, 4>*)row = *(lanes<float, 4>*)(local_ + ((i & 1) * 12288 + i_1 * 384 + local_x / 96 * 96 + local_x % 24 * 4 + 16384));
      #pragma unroll
      for (int un_7 = 0; un_7 < 4; ++un_7) {
        #pragma unroll
        for (int un_8 = 0; un_8 < 2; ++un_8) {
          #pragma unroll
          for (int un_9 = 0; un_9 < 8; ++un_9) {
            total[un_7 * 16 + un_8 * 8 + un_9] = total[un_7 * 16 + un_8 * 8 + un_9] + row[un_7] * run[un_8 * 8 + un_9];
          }
        }
      }
    }
  }
  __syncthreads();
  #pragma unroll
  for (int un_10 = 0; un_10 < 4; ++un_10) {
    #pragma unroll
    for (int un_11 = 0; un_11 < 2; ++un_11) {
      #pragma unroll
      for (int un_12 = 0; un_12 < 8; ++un_12) {
        local_[local_x / 96 * 6336 + un_11 * 3168 + local_x % 96 / 24 * 792 + un_12 * 99 + local_x % 24 * 4 + ((local_x % 24) >> 3) + un_10] = total[un_10 * 16 + un_11 * 8 + un_12];
      }
    }
  }
  __syncthreads();
  #pragma unroll
  for (int un_13 = 0; un_13 < 16; ++un_13) {
    terms[0] = local_[un_13 * 396 + (local_x >> 5) + local_x];
    terms[1] = local_[un_13 * 396 + (local_x >> 5) + local_x + 6336];
    terms[2] = local_[un_13 * 396 + (local_x >> 5) + local_x + 12672];
    terms[3] = local_[un_13 * 396 + (local_x >> 5) + local_x + 19008];
    terms[0] = terms[0] + terms[1] + terms[2] + terms[3];
    const float t = terms[0];
    values[un_13] = t < 0.0f ? 0.0f : t;
  }
  #pragma unroll
  for (int un_14 = 0; un_14 < 16; ++un_14) {
    out[group_x * 49152 + un_14 * 3072 + local_x / 96 * 768 + group_y * 96 + local_x % 96] = values[un_14];
  }
}
