// A product of two operands whose parts some warps bring and others multiply, read off a
// description P of its loops and of how they are mapped.
//
// Groups stay: each computes one tile of rows by positions after the other. One thread brings the
// boxes of the streamed operand that all windows of a tile share (or those of one window at a
// time), lines of up to 128 bytes a position, into a ring; a window offset is nothing but another
// start in them. For each warpgroup that multiplies another thread brings the rows of one window
// offset at a time, its own, into another ring. So warpgroups run apart: while one stores its
// results, the others have the matrix units.
template <class P>
__device__ __forceinline__ void streamed_product(P& p, const TensorMap& map,
                                                 unsigned char* local) {
  const int thread = threadIdx.x, group = thread >> 7, lane = thread & 31;
  Arrival* const box_full = (Arrival*)(local + P::GATES);
  Arrival* const box_empty = box_full + P::BOXES;
  Arrival* const all_rows_full = box_empty + P::BOXES;
  Arrival* const all_rows_empty = all_rows_full + P::GROUPS * P::STAGES;
  Arrival* const begun = all_rows_empty + P::GROUPS * P::STAGES;
  if (thread == 0) {
    for (int k = 0; k < P::BOXES; ++k) {
      prepare(box_full[k], 1);
      prepare(box_empty[k], P::GROUPS * 4);
    }
    for (int k = 0; k < P::GROUPS * P::STAGES; ++k) {
      prepare(all_rows_full[k], 1);
      prepare(all_rows_empty[k], 4);
    }
    for (int k = 0; k < P::GROUPS; ++k) prepare(begun[k], 1);
    prepared();
  }
  group_wait();

  if (group >= P::GROUPS) {
    if constexpr (P::MORE > 0) registers_fewer<P::FEWER>();
    const int warp = (thread >> 5) - P::GROUPS * 4;
    if (lane == 0 && warp == 0) {
      int slot = 0, round = 0;
      for (int tile = blockIdx.x; tile < P::TILES; tile += P::GRID) {
        p.start(tile);
        for (int step = 0; step < P::STEPS; ++step) {
          if (round > 0) wait_for(box_empty[slot], round - 1);
          expect(box_full[slot], P::BOX_LINES * P::LINE);
          int at[P::RANK];
          p.corner(step, at);
          copy_box(local + slot * P::BOX_BYTES, map, at, box_full[slot]);
          if (++slot == P::BOXES) slot = 0, ++round;
        }
      }
    } else if (lane == 0 && warp <= P::GROUPS) {
      const int own = warp - 1;
      Arrival* const full = all_rows_full + own * P::STAGES;
      Arrival* const empty = all_rows_empty + own * P::STAGES;
      unsigned char* const ring = local + P::ROWS_AT + own * P::STAGES * P::ROWS_BYTES;
      int slot = 0, round = 0;
      for (int tile = blockIdx.x; tile < P::TILES; tile += P::GRID) {
        p.start(tile);
        const unsigned char* const source = p.part(own % P::ROW_GROUPS);
        for (int portion = 0; portion < P::STEPS * P::TAPS; ++portion) {
          if (round > 0) wait_for(empty[slot], round - 1);
          expect(full[slot], P::ROWS_BYTES);
          copy_run(ring + slot * P::ROWS_BYTES, source + portion * P::ROWS_BYTES, P::ROWS_BYTES,
                   full[slot]);
          if (++slot == P::STAGES) slot = 0, ++round;
        }
      }
    }
  } else {
    if constexpr (P::MORE > 0) registers_more<P::MORE>();
    const int row_group = group % P::ROW_GROUPS, column_group = group / P::ROW_GROUPS;
    Arrival* const rows_full = all_rows_full + group * P::STAGES;
    Arrival* const rows_empty = all_rows_empty + group * P::STAGES;
    const unsigned char* const ring = local + P::ROWS_AT + group * P::STAGES * P::ROWS_BYTES;
    unsigned char* const staged = local + P::STAGED_AT + group * P::STAGED_BYTES;
    int box_slot = 0, box_round = 0, rows_slot = 0, rows_round = 0;
    if (P::LAG > 0 && group > 0) wait_for(begun[group], 0);
    int behind = group == 0 ? 0 : P::GROUPS;  // Groups that are told to begin.

    for (int tile = blockIdx.x; tile < P::TILES; tile += P::GRID) {
      float sums[P::FRAGMENTS][P::COLUMNS_EACH / 2];  // The first product sets them.
      int box_last = 0, rows_last = 0;
      for (int step = 0; step < P::STEPS; ++step) {
        wait_for(box_full[box_slot], box_round);
        const unsigned long long columns =
            lines<P::LINE>(local + box_slot * P::BOX_BYTES) +
            column_group * (P::COLUMNS_EACH * P::LINE / 16);
#pragma unroll(P::UNROLLED)
        for (int tap = 0; tap < P::TAPS; ++tap) {
          wait_for(rows_full[rows_slot], rows_round);
          const unsigned long long rows = lines<P::LINE>(ring + rows_slot * P::ROWS_BYTES);
          products_begin();
#pragma unroll
          for (int k = 0; k < P::LINE / 32; ++k) {
#pragma unroll
            for (int f = 0; f < P::FRAGMENTS; ++f)
              P::multiply(sums[f], rows + (f * 64 * P::LINE + k * 32) / 16,
                          columns + (P::tap(tap) * P::LINE + k * 32) / 16,
                          step > 0 || tap > 0 || k > 0);
          }
          products_commit();
          products_wait<1>();  // What came before this is done with its memory.
          if (lane == 0) {
            if (step > 0 || tap > 0) arrive(rows_empty[rows_last]);
            if (step > 0 && tap == 0) arrive(box_empty[box_last]);
          }
          if (P::LAG > 0 && behind < P::GROUPS - 1 &&
              step * P::TAPS + tap + 1 >= (behind + 1) * P::LAG) {
            ++behind;
            if (thread == 0) arrive(begun[behind]);
          }
          rows_last = rows_slot;
          if (++rows_slot == P::STAGES) rows_slot = 0, ++rows_round;
        }
        box_last = box_slot;
        if (++box_slot == P::BOXES) box_slot = 0, ++box_round;
      }
      products_wait<0>();
      if (lane == 0) {
        arrive(rows_empty[rows_last]);
        arrive(box_empty[box_last]);
      }

      // Sums become lines of results.
      p.start(tile);
      warpgroup_wait(group + 1);  // What lay there is stored.
      const int warp = (thread >> 5) & 3;
#pragma unroll
      for (int f = 0; f < P::FRAGMENTS; ++f) {
        if constexpr (P::HALVES) {
          unsigned char* const block = staged + f * (P::COLUMNS_EACH * 128);
          const int unit = warp * 2 + (lane >> 3) % 2;
#pragma unroll
          for (int k = 0; k < P::COLUMNS_EACH / 16; ++k) {
            const int column = k * 16 + lane / 16 * 8 + lane % 8;
            store_turned(block + column * 128 + (unit ^ (column & 7)) * 16,
                         pair_of_halves(sums[f][k * 8], sums[f][k * 8 + 1]),
                         pair_of_halves(sums[f][k * 8 + 2], sums[f][k * 8 + 3]),
                         pair_of_halves(sums[f][k * 8 + 4], sums[f][k * 8 + 5]),
                         pair_of_halves(sums[f][k * 8 + 6], sums[f][k * 8 + 7]));
          }
          if constexpr (P::COLUMNS_EACH % 16 != 0) {
            constexpr int last = P::COLUMNS_EACH / 2 - 4;
            const int column = P::COLUMNS_EACH - 8 + lane % 8;
            store_turned(block + column * 128 + (unit ^ (column & 7)) * 16,
                         pair_of_halves(sums[f][last], sums[f][last + 1]),
                         pair_of_halves(sums[f][last + 2], sums[f][last + 3]));
          }
        } else {
#pragma unroll
          for (int k = 0; k < P::COLUMNS_EACH / 2; ++k) {
            const int row = f * 64 + warp * 16 + lane / 4 + k % 4 / 2 * 8;
            const int column = k / 4 * 8 + lane % 4 * 2 + k % 2;
            ((float*)staged)[column * P::PITCH + row] = sums[f][k];
          }
        }
      }
      warpgroup_wait(group + 1);
      constexpr int units = P::FRAGMENTS * 64 / P::WIDTH;
      const int low = column_group == 0 ? 0 : P::SECOND;
      const int high = column_group == 0 ? P::SECOND : P::PLACES;
      constexpr int together = 4;  // Computed before the first of them is stored.
      for (int first = low * units + (thread & 127); first < high * units;
           first += 128 * together) {
        int whole[together], place[together];
        bool there[together];
        float values[together][P::WIDTH];
#pragma unroll
        for (int n = 0; n < together; ++n) {
          const int item = first + n * 128, row = item % units * P::WIDTH;
          place[n] = item / units;
          whole[n] = row_group * (P::FRAGMENTS * 64) + row;
          there[n] = item < high * units && p.present(whole[n], place[n]);
          if (!there[n]) continue;
          const int column = p.column(place[n]) - column_group * P::COLUMNS_EACH;
          if constexpr (P::HALVES) {
            const int unit = row % 64 / 8;
            fetch((const half*)(staged + row / 64 * (P::COLUMNS_EACH * 128) + column * 128 +
                                (unit ^ (column & 7)) * 16 + row % 8 * 2),
                  values[n]);
          } else {
            fetch((const float*)staged + column * P::PITCH + row, values[n]);
          }
          p.compute(whole[n], place[n], values[n]);
        }
#pragma unroll
        for (int n = 0; n < together; ++n)
          if (there[n]) p.store(whole[n], place[n], values[n]);
      }
    }
  }
}
