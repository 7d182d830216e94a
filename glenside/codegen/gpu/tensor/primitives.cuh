// What products on matrix units are made of (sm_90a): runs of bytes that the copy engine brings,
// warpgroup products, clusters of groups.
namespace glenside {
// A run of bytes that the copy engine brings; all threads may wait for it.
struct Arrival {
  unsigned long long state;
};
__device__ __forceinline__ void prepare(Arrival& arrival, int arrivals = 1) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&arrival)),
               "r"(arrivals)
               : "memory");
}
__device__ __forceinline__ void prepared() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// By one thread: so many bytes will come.
__device__ __forceinline__ void expect(Arrival& arrival, int size) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   shared_address(&arrival)),
               "r"(size)
               : "memory");
}
__device__ __forceinline__ void copy_run(unsigned char* target, const void* source, int size,
                                         Arrival& arrival) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(target)),
      "l"(source), "r"(size), "r"(shared_address(&arrival))
      : "memory");
}
// Waits for the run that was asked for as the ``round``-th, from 0.
__device__ __forceinline__ void wait_for(Arrival& arrival, int round) {
  asm volatile(
      "{\n.reg .pred p;\nWAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra WAIT;\nDONE:\n}" ::
          "r"(shared_address(&arrival)),
      "r"(round & 1)
      : "memory");
}

// What this thread wrote to shared memory is seen by products.
__device__ __forceinline__ void visible_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void products_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int PENDING>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// An operand of a product: cells of 8 rows by 16 bytes, which are contiguous; the next 16 bytes of
// the reduced axis lie ``lead`` bytes on, the next 8 rows 128 bytes.
__device__ __forceinline__ unsigned long long operand(const unsigned char* start, int lead) {
  const unsigned long long address = (shared_address(start) & 0x3FFFF) >> 4;
  return address | (unsigned long long)(lead >> 4) << 16 | (unsigned long long)(128 >> 4) << 32;
}

__device__ __forceinline__ void cluster_wait() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}
// What stands in another group's shared memory where ``own`` does in this one's.
__device__ __forceinline__ float4 of_group4(const float* own, int rank) {
  unsigned place;
  float4 value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(place)
               : "r"(shared_address(own)), "r"(rank));
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(place));
  return value;
}
__device__ __forceinline__ float of_group(const float* own, int rank) {
  unsigned place;
  float value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(place)
               : "r"(shared_address(own)), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(place) : "memory");
  return value;
}
}  // namespace glenside
