// The same product by warps, each of which multiplies cells that it holds in registers: for devices
// whose matrix units take operands from there.
//
// Boxes and rows lie in shared memory as they do for warpgroups, so that a window offset is nothing
// but another start. The parts along z share the steps; another kernel adds up what they store.
template <class P>
__device__ __forceinline__ void warp_product(const P& p, unsigned char* local) {
  const int thread = threadIdx.x, lane = thread % P::WARP, warp = thread / P::WARP;
  const int row_warp = warp % P::ROW_GROUPS, column_warp = warp / P::ROW_GROUPS;
  const int first = P::PARTS > 1 ? (int)blockIdx.z * P::SHARE : 0;
  const int steps = P::SHARE < P::STEPS - first ? P::SHARE : P::STEPS - first;
  constexpr int cells = P::COLUMNS_EACH / P::PRODUCT_POSITIONS;
  constexpr int loads = (cells + P::TOGETHER - 1) / P::TOGETHER;

  const Bringer<P> bringer(p, thread);
  auto bring = [&](int number) {
    unsigned char* const box = local + number % P::STAGES * P::STAGE_BYTES;
    unsigned char* const rows = box + P::BOX_BYTES;
    const int step = first + number;
    bringer.bring_box(p, step, box, thread);
    if constexpr (P::PACKED) {
      const unsigned char* const part = p.part(step);
#pragma unroll 4
      for (int at = thread * 16; at < P::ROWS_BYTES; at += P::THREADS * 16)
        copy(rows + at, part + at, true);
    } else {
      bringer.bring_rows(p, step, rows, thread);
    }
  };

  float sums[P::FRAGMENTS][cells][P::SUMS];
#pragma unroll
  for (int f = 0; f < P::FRAGMENTS; ++f)
#pragma unroll
    for (int c = 0; c < cells; ++c)
#pragma unroll
      for (int k = 0; k < P::SUMS; ++k) sums[f][c][k] = 0;

  // Where what this lane loads begins.
  const int row_start =
      P::BOX_BYTES + P::row_unit(lane) * P::LEAD +
      (row_warp * P::FRAGMENTS * P::PRODUCT_ROWS + P::row_line(lane)) * 16;
  const int column_start = P::position_unit(lane) * P::PLANE +
                           (column_warp * P::COLUMNS_EACH + P::position_line(lane)) * 16;

#pragma unroll
  for (int number = 0; number < P::AHEAD; ++number) {
    if (number < steps) bring(number);
    copies_commit();
  }
  for (int number = 0; number < steps; ++number) {
    copies_wait<P::AHEAD - 1>();
    group_wait();
    if (number + P::AHEAD < steps) bring(number + P::AHEAD);
    copies_commit();
    const unsigned char* const stage = local + number % P::STAGES * P::STAGE_BYTES;
#pragma unroll(P::UNROLLED)
    for (int tap = 0; tap < P::TAPS; ++tap) {
      const unsigned char* const rows = stage + row_start + tap * P::UNITS * P::LEAD;
      const unsigned char* const columns = stage + column_start + P::tap(tap) * 16;
#pragma unroll
      for (int k = 0; k < P::UNITS / 2; ++k) {
        unsigned a[P::FRAGMENTS][P::ROW_WORDS], b[loads][P::TOGETHER * 2];
#pragma unroll
        for (int f = 0; f < P::FRAGMENTS; ++f)
          load_cells(a[f], rows + k * 2 * P::LEAD + f * P::PRODUCT_ROWS * 16);
#pragma unroll
        for (int c = 0; c < loads; ++c) {
          // Where fewer are left than are loaded at once, the last one is loaded again.
          const int left = c * P::TOGETHER + P::TOGETHER <= cells
                               ? 0 : P::position_line(lane) / P::PRODUCT_POSITIONS;
          load_cells(b[c], columns + k * 2 * P::PLANE +
                               (c * P::TOGETHER - left) * P::PRODUCT_POSITIONS * 16);
        }
#pragma unroll
        for (int f = 0; f < P::FRAGMENTS; ++f)
#pragma unroll
          for (int c = 0; c < cells; ++c)
            P::multiply(sums[f][c], a[f], b[c / P::TOGETHER][c % P::TOGETHER * 2],
                        b[c / P::TOGETHER][c % P::TOGETHER * 2 + 1]);
      }
    }
  }
  copies_wait<0>();
  group_wait();

  // Sums lie as results do, the nearer of rows and columns innermost.
  float* const shared = (float*)local;
#pragma unroll
  for (int f = 0; f < P::FRAGMENTS; ++f)
#pragma unroll
    for (int c = 0; c < cells; ++c) {
#pragma unroll
      for (int k = 0; k < P::SUMS; ++k) {
        const int r = (row_warp * P::FRAGMENTS + f) * P::PRODUCT_ROWS + P::sum_row(lane, k);
        const int n = column_warp * P::COLUMNS_EACH + c * P::PRODUCT_POSITIONS +
                      P::sum_position(lane, k);
        shared[P::ROWS_FAST ? n * P::PITCH + r : r * P::PITCH + n] = sums[f][c][k];
      }
    }
  group_wait();
  store_results(p, shared, 0, thread);
}
