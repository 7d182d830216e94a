// (what is written by hand)

// (what is written by hand)

// (what is written by hand)

// A launch may begin while the one before it ends: before it touches what others wrote, it waits.
static __device__ __forceinline__ int after_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  return 0;
}

extern "C" __global__ void __launch_bounds__(256) step_0(
    const half* in0, const half* in1, const half* in2, half* __restrict__ out) {
  after_earlier_kernels();
  using namespace glenside;
  struct Shape {
    enum {
      ROW_WARPS = 2, PARTS = 4, THREADS = 256, BLOCK = 32, STAGES = 1, ROWS = 128,
      COLUMNS = 128, ENDS = 64, DEPTH = 64, WIDTH = 64, DEPTH_PITCH = 144, WIDTH_PITCH = 144,
    };
    const half* in0;
    const half* in1;
    const half* in2;
    half* out;
    int batch;
    __device__ __forceinline__ void bring_row(unsigned char* target, int row, int unit) const {
      const bool there = row < 128;
      const bool inside = there;
      copy(target, in0 + (inside ? (batch * 8192 + row * 64) + unit * 8 : 0), inside);
    }
    __device__ __forceinline__ void bring_column(unsigned char* target, int column, int unit) const {
      const bool there = column < 128;
      const bool inside = there;
      copy(target, in1 + (inside ? (batch * 8192 + column * 64) + unit * 8 : 0), inside);
    }
    __device__ __forceinline__ void bring_value(unsigned char* target, int column, int unit) const {
      const bool there = column < 128;
      const bool inside = there;
      copy(target, in2 + (inside ? (batch * 8192 + column * 64) + unit * 8 : 0), inside);
    }
    __device__ __forceinline__ float score(int row, int column, float total) const {
      return total;
    }
    __device__ __forceinline__ void store(int row, int column, float total) const {
      assign(out[batch * 8192 + row * 64 + column], rounded(total));
    }
    static __device__ __forceinline__ void multiply(float (&sums)[4],
        const unsigned (&rows)[4], unsigned first, unsigned second) {
      warp_multiply_half(sums, rows, first, second);
    }
    static __device__ __forceinline__ unsigned two(float low, float high) {
      return two_half(low, high);
    }
  };
  Shape shape{in0, in1, in2, out, (int)blockIdx.y};
  GLENSIDE_LOCAL(local);
  streamed_product(shape, local);
}
