// How the threads of a group bring operands to shared memory, as planes of 16 bytes a position.
//
// Where 16 bytes of the reduced axis are neighbours in memory, each thread knows where the units that
// it brings begin; else units are put together element by element.
template <class P>
struct Bringer {
  int places[P::DIRECT ? P::TURNS : 1];
  int row_places[P::ROWS_DIRECT ? P::ROW_TURNS : 1];

  __device__ __forceinline__ Bringer(const P& p, int thread) {
    if constexpr (P::DIRECT) {
#pragma unroll
      for (int turn = 0; turn < P::TURNS; ++turn) {
        const int item = thread + turn * P::THREADS, position = item / P::UNITS;
        const int place = position < P::POSITIONS ? p.offset(position) : -1;
        places[turn] = place < 0 ? -1 : place + item % P::UNITS * P::UNIT;
      }
    }
    if constexpr (P::ROWS_DIRECT) {
#pragma unroll
      for (int turn = 0; turn < P::ROW_TURNS; ++turn) {
        const int item = thread + turn * P::THREADS, position = item / P::UNITS;
        const int place = position < P::ROWS ? p.row_offset(position) : -1;
        row_places[turn] = place < 0 ? -1 : place + item % P::UNITS * P::UNIT;
      }
    }
  }

  // The box of the streamed operand that a step needs.
  __device__ __forceinline__ void bring_box(const P& p, int step, unsigned char* box,
                                            int thread) const {
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
  }

  // The rows of the other operand, which is no constant.
  __device__ __forceinline__ void bring_rows(const P& p, int step, unsigned char* rows,
                                             int thread) const {
    if constexpr (P::ROWS_DIRECT) {
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
  }
};
