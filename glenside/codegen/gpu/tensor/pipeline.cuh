// What a product whose operands are brought by warps of their own is made of besides (sm_90a).
#define GLENSIDE_LINES(name) extern __shared__ __align__(1024) unsigned char name[]

namespace glenside {
// A tensor in memory as the copy engine knows it; the driver writes it.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

// What one of those an arrival waits for did: it is done with the memory.
__device__ __forceinline__ void arrive(Arrival& arrival) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&arrival))
               : "memory");
}

// Brings the box of a tensor that starts at ``at``; what is outside of the tensor is zero.
__device__ __forceinline__ void copy_box(unsigned char* target, const TensorMap& map,
                                         const int (&at)[2], Arrival& arrival) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4}], [%2];" ::"r"(shared_address(target)),
      "l"(&map), "r"(shared_address(&arrival)), "r"(at[0]), "r"(at[1])
      : "memory");
}
__device__ __forceinline__ void copy_box(unsigned char* target, const TensorMap& map,
                                         const int (&at)[3], Arrival& arrival) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(target)),
      "l"(&map), "r"(shared_address(&arrival)), "r"(at[0]), "r"(at[1]), "r"(at[2])
      : "memory");
}
__device__ __forceinline__ void copy_box(unsigned char* target, const TensorMap& map,
                                         const int (&at)[4], Arrival& arrival) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(target)),
      "l"(&map), "r"(shared_address(&arrival)), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
      : "memory");
}
__device__ __forceinline__ void copy_box(unsigned char* target, const TensorMap& map,
                                         const int (&at)[5], Arrival& arrival) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared_address(target)),
      "l"(&map), "r"(shared_address(&arrival)), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
      "r"(at[4])
      : "memory");
}

// An operand of a product: lines of 128, 64 or 32 bytes of the reduced axis, whose units of 16
// bytes are swapped by the address as the copy engine swaps them.
template <int LINE>
__device__ __forceinline__ unsigned long long lines(const unsigned char* start) {
  const unsigned long long address = (shared_address(start) & 0x3FFFF) >> 4;
  constexpr unsigned long long kind = LINE == 128 ? 1 : LINE == 64 ? 2 : 3;
  return address | 1ull << 16 | (unsigned long long)(LINE * 8 >> 4) << 32 | kind << 62;
}

// The warps of a warpgroup wait for each other; ``name`` is the warpgroup's own.
__device__ __forceinline__ void warpgroup_wait(int name) {
  asm volatile("bar.sync %0, 128;" ::"r"(name) : "memory");
}
template <int COUNT>
__device__ __forceinline__ void registers_fewer() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
__device__ __forceinline__ void registers_more() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

__device__ __forceinline__ unsigned pair_of_halves(float first, float second) {
  const half2 both = __floats2half2_rn(first, second);
  return *(const unsigned*)&both;
}
// Four (two) blocks of 8 by 8 halves as products leave them, each turned: its columns become runs
// of 16 bytes, which lie where a warp's threads say, those of block ``b`` where thread 8 b + c does.
__device__ __forceinline__ void store_turned(unsigned char* place, unsigned a, unsigned b,
                                             unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   shared_address(place)),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
__device__ __forceinline__ void store_turned(unsigned char* place, unsigned a, unsigned b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(
                   shared_address(place)),
               "r"(a), "r"(b)
               : "memory");
}
// Neighbours as floats.
__device__ __forceinline__ void fetch(const half* from, float (&values)[8]) {
  const uint4 raw = *(const uint4*)from;
  const half2* const pairs = (const half2*)&raw;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float2 pair = __half22float2(pairs[k]);
    values[k * 2] = pair.x, values[k * 2 + 1] = pair.y;
  }
}
__device__ __forceinline__ void fetch(const half* from, float (&values)[4]) {
  const uint2 raw = *(const uint2*)from;
  const half2* const pairs = (const half2*)&raw;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const float2 pair = __half22float2(pairs[k]);
    values[k * 2] = pair.x, values[k * 2 + 1] = pair.y;
  }
}
template <int COUNT>
__device__ __forceinline__ void fetch(const float* from, float (&values)[COUNT]) {
#pragma unroll
  for (int k = 0; k < COUNT / 4; ++k) {
    const float4 four = ((const float4*)from)[k];
    values[k * 4] = four.x, values[k * 4 + 1] = four.y;
    values[k * 4 + 2] = four.z, values[k * 4 + 3] = four.w;
  }
}
}  // namespace glenside
