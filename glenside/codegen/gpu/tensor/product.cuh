// A product of two operands, read off a description P of its loops and of how they are mapped.
//
// A group computes P::ROWS rows of one operand by a tile of positions of the other. It walks along
// the reduced loops in steps. In each, the box of the streamed operand that all windows of the tile
// share is brought to shared memory once, as planes of 16 bytes a position: eight neighbouring
// positions are a cell of the matrix units, wherever they start, so that a window offset is nothing
// but another start. Positions between the rows of the tile are computed too, and not stored.
// The groups of a cluster share the steps; each adds up a part of the sums of all.
template <class P>
__device__ __forceinline__ void matrix_product(const P& p, unsigned char* local) {
  const int thread = threadIdx.x;
  const int row_group = (thread >> 7) % P::ROW_GROUPS, column_group = (thread >> 7) / P::ROW_GROUPS;
  const int rank = P::SPLIT > 1 ? (int)blockIdx.z : 0;
  const int first = rank * P::SHARE;
  const int steps = P::SHARE < P::STEPS - first ? P::SHARE : P::STEPS - first;

  const Bringer<P> bringer(p, thread);

  Arrival* const arrivals = (Arrival*)(local + P::ARRIVALS);
  if constexpr (P::PACKED) {
    if (thread == 0) {
#pragma unroll
      for (int stage = 0; stage < P::STAGES; ++stage) prepare(arrivals[stage]);
      prepared();
    }
    group_wait();
  }

  auto bring = [&](int number) {
    unsigned char* const box = local + number % P::STAGES * P::STAGE_BYTES;
    unsigned char* const rows = box + P::BOX_BYTES;
    const int step = first + number;
    bringer.bring_box(p, step, box, thread);
    if constexpr (P::PACKED) {
      if (thread == 0) {
        Arrival& arrival = arrivals[number % P::STAGES];
        expect(arrival, P::ROWS_BYTES);
        copy_run(rows, p.part(step), P::ROWS_BYTES, arrival);
      }
    } else {
      bringer.bring_rows(p, step, rows, thread);
    }
  };

  float sums[P::FRAGMENTS][P::COLUMNS_EACH / 2];  // The first product sets them.

#pragma unroll
  for (int number = 0; number < P::AHEAD; ++number) {
    if (number < steps) bring(number);
    copies_commit();
  }
  for (int number = 0; number < steps; ++number) {
    copies_wait<P::AHEAD - 1>();
    visible_to_products();
    group_wait();
    if constexpr (P::PACKED) wait_for(arrivals[number % P::STAGES], number / P::STAGES);
    const unsigned char* const box = local + number % P::STAGES * P::STAGE_BYTES;
    const unsigned long long columns =
        operand(box + column_group * P::COLUMNS_EACH * 16, P::PLANE);
    const unsigned long long rows =
        operand(box + P::BOX_BYTES + row_group * P::FRAGMENTS * 1024, P::LEAD);
    products_begin();
#pragma unroll(P::UNROLLED)
    for (int tap = 0; tap < P::TAPS; ++tap) {
#pragma unroll
      for (int k = 0; k < P::UNITS / 2; ++k) {
#pragma unroll
        for (int f = 0; f < P::FRAGMENTS; ++f)
          P::multiply(sums[f], rows + ((tap * P::UNITS + k * 2) * P::LEAD + f * 1024) / 16,
                      columns + (k * 2 * P::PLANE / 16 + P::tap(tap)),
                      number > 0 || tap > 0 || k > 0);
      }
    }
    products_commit();
    if (number + P::AHEAD < steps) bring(number + P::AHEAD);
    copies_commit();
    products_wait<P::KEPT>();
  }
  products_wait<0>();
  copies_wait<0>();
  group_wait();

  // Sums lie as results do, the nearer of rows and columns innermost.
  float* const shared = (float*)local;
#pragma unroll
  for (int f = 0; f < P::FRAGMENTS; ++f)
#pragma unroll
    for (int k = 0; k < P::COLUMNS_EACH / 8; ++k) {
      const int row =
          (row_group * P::FRAGMENTS + f) * 64 + (thread >> 5) % 4 * 16 + (thread & 31) / 4;
      const int column = column_group * P::COLUMNS_EACH + k * 8 + (thread & 3) * 2;
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int r = row + part / 2 * 8, c = column + part % 2;
        shared[P::ROWS_FAST ? c * P::PITCH + r : r * P::PITCH + c] = sums[f][k * 4 + part];
      }
    }
  if constexpr (P::SPLIT > 1)
    cluster_wait();
  else
    group_wait();
  store_results(p, shared, rank, thread);
  if constexpr (P::SPLIT > 1) cluster_wait();
}
