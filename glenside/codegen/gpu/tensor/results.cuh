// What follows a product: sums that lie in shared memory as results do become results. The groups of
// a cluster add up a part of the sums of all each.
template <class P>
__device__ __forceinline__ void take_result(const float* shared, int rank, int item, int row,
                                            int place, float (&values)[P::WIDTH]) {
  const int column = P::column(place);
  const float* const own = shared + (P::ROWS_FAST ? column * P::PITCH + row
                                                  : row * P::PITCH + column);
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
        if constexpr (P::SPLIT > 1)
          parts[other] = of_group4(start, (rank + other) % P::SPLIT);
        else
          parts[other] = *(float4*)start;
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
        if constexpr (P::SPLIT > 1)
          total += of_group(own + k, (rank + other) % P::SPLIT);
        else
          total += own[k];
      values[k] = total;
    }
  }
}

// Several are computed before the first is stored: what follows the product may read memory, and
// after a store such reads would wait for the memory anew.
template <class P>
__device__ __forceinline__ void store_results(const P& p, const float* shared, int rank,
                                              int thread) {
  constexpr int step = P::THREADS * P::SPLIT, turns = (P::ITEMS + step - 1) / step;
  constexpr int together = turns < 4 ? turns : 4;
  for (int first = rank * P::THREADS + thread; first < P::ITEMS; first += step * together) {
    int row[together], place[together];
    bool there[together];
    float values[together][P::WIDTH];
#pragma unroll
    for (int n = 0; n < together; ++n) {
      const int item = first + n * step;
      row[n] = P::ROWS_FAST ? item % (P::ROWS / P::WIDTH) * P::WIDTH : item / P::PLACES;
      place[n] = P::ROWS_FAST ? item / (P::ROWS / P::WIDTH) : item % P::PLACES;
      there[n] = item < P::ITEMS && p.present(row[n], place[n]);
      if (there[n]) {
        take_result<P>(shared, rank, item, row[n], place[n], values[n]);
        p.compute(row[n], place[n], values[n]);
      }
    }
#pragma unroll
    for (int n = 0; n < together; ++n)
      if (there[n]) p.store(row[n], place[n], values[n]);
  }
}
