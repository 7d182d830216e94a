// What follows a product: sums that lie in shared memory as results do become results. The groups of
// a cluster add up a part of the sums of all each.
template <class P>
__device__ __forceinline__ void store_results(const P& p, const float* shared, int rank,
                                              int thread) {
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
    if (p.present(row, place)) p.store(row, place, values);
  }
}
