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

  int places[P::DIRECT ? P::TURNS : 1];
  if constexpr (P::DIRECT) {
#pragma unroll
    for (int turn = 0; turn < P::TURNS; ++turn) {
      const int item = thread + turn * P::THREADS, position = item / P::UNITS;
      const int place = position < P::POSITIONS ? p.offset(position) : -1;
      places[turn] = place < 0 ? -1 : place + item % P::UNITS * P::UNIT;
    }
  }
  int row_places[P::ROWS_DIRECT ? P::ROW_TURNS : 1];
  if constexpr (P::ROWS_DIRECT) {
#pragma unroll
    for (int turn = 0; turn < P::ROW_TURNS; ++turn) {
      const int item = thread + turn * P::THREADS, position = item / P::UNITS;
      const int place = position < P::ROWS ? p.row_offset(position) : -1;
      row_places[turn] = place < 0 ? -1 : place + item % P::UNITS * P::UNIT;
    }
  }

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
    if constexpr (P::DIRECT) {
      const int walked = p.walk(step);
#pragma unroll
      for (int turn = 0; turn < P::TURNS; ++turn) {
        const int item = thread + turn * P::THREADS;
        const int position = item / P::UNITS, unit = item % P::UNITS;
        const bool there = places[turn] >= 0 && p.reduces(step, unit);
        if (item < P::POSITIONS * P::UNITS)
          copy(box + unit * P::PLANE + position * 16,
               p.streamed_base() + (there ? places[turn] + walked : 0), there);
      }
    } else {
#pragma unroll 2
      for (int item = thread; item < P::POSITIONS * P::UNITS; item += P::THREADS) {
        const int position = item % P::POSITIONS, unit = item / P::POSITIONS;
        *(uint4*)(box + unit * P::PLANE + position * 16) = p.unit(step, position, unit);
      }
    }
    if constexpr (P::PACKED) {
      if (thread == 0) {
        Arrival& arrival = arrivals[number % P::STAGES];
        expect(arrival, P::ROWS_BYTES);
        copy_run(rows, p.part(step), P::ROWS_BYTES, arrival);
      }
    } else if constexpr (P::ROWS_DIRECT) {
      const int walked = p.row_walk(step);
#pragma unroll
      for (int turn = 0; turn < P::ROW_TURNS; ++turn) {
        const int item = thread + turn * P::THREADS;
        const int position = item / P::UNITS, unit = item % P::UNITS;
        const bool there = row_places[turn] >= 0 && p.reduces(step, unit);
        if (item < P::ROWS * P::UNITS)
          copy(rows + unit * P::LEAD + position * 16,
               p.rows_base() + (there ? row_places[turn] + walked : 0), there);
      }
    } else {
#pragma unroll 2
      for (int item = thread; item < P::ROWS * P::UNITS; item += P::THREADS) {
        const int position = item % P::ROWS, unit = item / P::ROWS;
        *(uint4*)(rows + unit * P::LEAD + position * 16) = p.row_unit(step, position, unit);
      }
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
#pragma unroll 4
  for (int item = rank * P::THREADS + thread; item < P::ITEMS; item += P::THREADS * P::SPLIT) {
    const int row = P::ROWS_FAST ? item % (P::ROWS / P::WIDTH) * P::WIDTH : item / P::PLACES;
    const int place = P::ROWS_FAST ? item / (P::ROWS / P::WIDTH) : item % P::PLACES;
    const int column = P::column(place);
    const float* const own = shared + (P::ROWS_FAST ? column * P::PITCH + row
                                                    : row * P::PITCH + column);
    float values[P::WIDTH];
    if constexpr (P::WIDTH % 4 == 0) {
      // Half of the threads begin with their second half, so that all read other banks.
      const bool turned = P::WIDTH == 8 && item / 4 % 2;
      float4 found[P::WIDTH / 4];
#pragma unroll
      for (int k = 0; k < P::WIDTH / 4; ++k) {
        const float* const start = own + (turned ? P::WIDTH - 4 - k * 4 : k * 4);
        float4 parts[P::SPLIT];
#pragma unroll
        for (int other = 0; other < P::SPLIT; ++other)
          parts[other] =
              P::SPLIT > 1 ? of_group4(start, (rank + other) % P::SPLIT) : *(float4*)start;
        found[k] = parts[0];
#pragma unroll
        for (int other = 1; other < P::SPLIT; ++other) {
          found[k].x += parts[other].x, found[k].y += parts[other].y;
          found[k].z += parts[other].z, found[k].w += parts[other].w;
        }
      }
#pragma unroll
      for (int k = 0; k < P::WIDTH / 4; ++k) {
        const float4 one = turned ? found[P::WIDTH / 4 - 1 - k] : found[k];
        values[k * 4] = one.x, values[k * 4 + 1] = one.y;
        values[k * 4 + 2] = one.z, values[k * 4 + 3] = one.w;
      }
    } else {
#pragma unroll
      for (int k = 0; k < P::WIDTH; ++k) {
        float total = 0;
#pragma unroll
        for (int other = 0; other < P::SPLIT; ++other)
          total += P::SPLIT > 1 ? of_group(own + k, (rank + other) % P::SPLIT) : own[k];
        values[k] = total;
      }
    }
    if (p.present(row, place)) p.store(row, place, values);
  }
  if constexpr (P::SPLIT > 1) cluster_wait();
}
