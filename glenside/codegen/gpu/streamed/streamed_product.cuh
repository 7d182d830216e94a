// A product of softmaxed rows, block by block of the rows: each warp has 16 of them, and the warps
// of a part go through every PARTS-th block.
//
// Scores, powers and sums stay in registers; a row's powers are taken against the greatest of it so
// far, and what was added up before is taken against the new reference. Parts join at the end.
template <class P>
__device__ __forceinline__ void streamed_product(const P& p, unsigned char* local) {
  const int thread = threadIdx.x, lane = thread & 31;
  const int row_warp = (thread >> 5) % P::ROW_WARPS, part = (thread >> 5) / P::ROW_WARPS;
  constexpr int rows = P::ROW_WARPS * 16, deep = P::DEPTH / 16;
  constexpr int cells = P::BLOCK / 8, ends = P::WIDTH / 8, step = P::PARTS * P::BLOCK;
  constexpr int steps = (P::COLUMNS + step - 1) / step;
  constexpr float lowest = -INFINITY;
  const int first = blockIdx.x * rows;
  unsigned char* const columns = local + rows * P::DEPTH_PITCH;
  unsigned char* const values = columns + P::STAGES * step * P::DEPTH_PITCH;

  auto bring = [&](int number) {
    const int stage = number % P::STAGES * step, start = number * step;
#pragma unroll 4
    for (int at = thread; at < step * (P::DEPTH / 8); at += P::THREADS) {
      const int k = at / (P::DEPTH / 8), unit = at % (P::DEPTH / 8);
      p.bring_column(columns + (stage + k) * P::DEPTH_PITCH + unit * 16, start + k, unit);
    }
#pragma unroll 4
    for (int at = thread; at < step * (P::WIDTH / 8); at += P::THREADS) {
      const int k = at / (P::WIDTH / 8), unit = at % (P::WIDTH / 8);
      p.bring_value(values + (stage + k) * P::WIDTH_PITCH + unit * 16, start + k, unit);
    }
  };

#pragma unroll 4
  for (int at = thread; at < rows * (P::DEPTH / 8); at += P::THREADS) {
    const int k = at / (P::DEPTH / 8), unit = at % (P::DEPTH / 8);
    p.bring_row(local + k * P::DEPTH_PITCH + unit * 16, first + k, unit);
  }
  bring(0);
  copies_commit();
  copies_wait<0>();
  group_wait();

  unsigned own[deep][4];
#pragma unroll
  for (int d = 0; d < deep; ++d)
    load_cells(own[d], local + (row_warp * 16 + lane % 16) * P::DEPTH_PITCH +
                           (d * 16 + lane / 16 * 8) * 2);
  float sums[ends][4], top[2] = {lowest, lowest}, total[2] = {0, 0};
#pragma unroll
  for (int e = 0; e < ends; ++e)
#pragma unroll
    for (int k = 0; k < 4; ++k) sums[e][k] = 0;

#pragma unroll 1
  for (int number = 0; number < steps; ++number) {
    if (P::STAGES > 1) {
      if (number) {
        copies_wait<0>();
        group_wait();
      }
      if (number + 1 < steps) bring(number + 1);
      copies_commit();
    } else if (number) {
      group_wait();
      bring(number);
      copies_commit();
      copies_wait<0>();
      group_wait();
    }
    const int stage = number % P::STAGES * step + part * P::BLOCK;
    const int start = number * step + part * P::BLOCK;
    if (start >= P::COLUMNS) continue;

    float scores[cells][4];
#pragma unroll
    for (int c = 0; c < cells; ++c)
#pragma unroll
      for (int k = 0; k < 4; ++k) scores[c][k] = 0;
#pragma unroll
    for (int d = 0; d < deep; ++d)
#pragma unroll
      for (int c = 0; c < cells; c += 2) {
        unsigned found[4];
        load_cells(found, columns + (stage + c * 8 + lane / 16 * 8 + lane % 8) * P::DEPTH_PITCH +
                              (d * 16 + lane / 8 % 2 * 8) * 2);
        P::multiply(scores[c], own[d], found[0], found[1]);
        P::multiply(scores[c + 1], own[d], found[2], found[3]);
      }

    float greatest[2] = {top[0], top[1]};
#pragma unroll
    for (int c = 0; c < cells; ++c)
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int row = first + row_warp * 16 + lane / 4 + k / 2 * 8;
        const int column = start + c * 8 + lane % 4 * 2 + k % 2;
        scores[c][k] = column < P::COLUMNS || P::COLUMNS % step == 0
                           ? p.score(row < P::ROWS ? row : P::ROWS - 1, column, scores[c][k])
                           : lowest;
        greatest[k / 2] = fmaxf(greatest[k / 2], scores[c][k]);
      }
    float against[2], factor[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      greatest[k] = fmaxf(greatest[k], of_lane(greatest[k], 1));
      greatest[k] = fmaxf(greatest[k], of_lane(greatest[k], 2));
      // Where all is -inf so far, against zero: no differences of infinities.
      against[k] = greatest[k] == lowest ? 0 : greatest[k];
      factor[k] = power(top[k] - against[k]);
      top[k] = greatest[k];
      total[k] *= factor[k];
    }
#pragma unroll
    for (int c = 0; c < cells; ++c)
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        scores[c][k] = power(scores[c][k] - against[k / 2]);
        total[k / 2] += scores[c][k];
      }
#pragma unroll
    for (int e = 0; e < ends; ++e)
#pragma unroll
      for (int k = 0; k < 4; ++k) sums[e][k] *= factor[k / 2];
#pragma unroll
    for (int c = 0; c < cells; c += 2) {
      const unsigned powers[4] = {
          P::two(scores[c][0], scores[c][1]), P::two(scores[c][2], scores[c][3]),
          P::two(scores[c + 1][0], scores[c + 1][1]), P::two(scores[c + 1][2], scores[c + 1][3])};
#pragma unroll
      for (int e = 0; e < ends; e += 2) {
        unsigned found[4];
        load_turned_cells(found,
                          values + (stage + c * 8 + lane / 8 % 2 * 8 + lane % 8) * P::WIDTH_PITCH +
                              (e * 8 + lane / 16 * 8) * 2);
        P::multiply(sums[e], powers, found[0], found[1]);
        P::multiply(sums[e + 1], powers, found[2], found[3]);
      }
    }
  }
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    total[k] += of_lane(total[k], 1);
    total[k] += of_lane(total[k], 2);
  }

  if constexpr (P::PARTS > 1) {
    constexpr int slots = ends * 4 + 4;
    float* const left = (float*)local + ((part - 1) * P::ROW_WARPS + row_warp) * slots * 32 + lane;
    group_wait();
    if (part) {
#pragma unroll
      for (int k = 0; k < 2; ++k) left[k * 32] = top[k], left[(2 + k) * 32] = total[k];
#pragma unroll
      for (int e = 0; e < ends; ++e)
#pragma unroll
        for (int k = 0; k < 4; ++k) left[(4 + e * 4 + k) * 32] = sums[e][k];
    }
    group_wait();
    if (part) return;
#pragma unroll
    for (int other = 1; other < P::PARTS; ++other) {
      const float* const there =
          (const float*)local + ((other - 1) * P::ROW_WARPS + row_warp) * slots * 32 + lane;
      float mine[2], its[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const float greatest = fmaxf(top[k], there[k * 32]);
        const float against = greatest == lowest ? 0 : greatest;
        mine[k] = power(top[k] - against);
        its[k] = power(there[k * 32] - against);
        total[k] = total[k] * mine[k] + there[(2 + k) * 32] * its[k];
        top[k] = greatest;
      }
#pragma unroll
      for (int e = 0; e < ends; ++e)
#pragma unroll
        for (int k = 0; k < 4; ++k)
          sums[e][k] = sums[e][k] * mine[k / 2] + there[(4 + e * 4 + k) * 32] * its[k / 2];
    }
  }
#pragma unroll
  for (int e = 0; e < ends; ++e)
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int row = first + row_warp * 16 + lane / 4 + k / 2 * 8;
      const int column = e * 8 + lane % 4 * 2 + k % 2;
      if (row < P::ROWS && column < P::ENDS) p.store(row, column, sums[e][k] / total[k / 2]);
    }
}
