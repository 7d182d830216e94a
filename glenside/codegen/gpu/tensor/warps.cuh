// What products of warps are made of (sm_80 and later): cells of 8 rows by 16 bytes from shared
// memory to registers, and products of them.
namespace glenside {
// Four cells; lane k names row k % 8 of cell k / 8. Of each cell, a lane gets 4 bytes of row
// lane / 4.
__device__ __forceinline__ void load_cells(unsigned (&cells)[4], const unsigned char* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(cells[0]), "=r"(cells[1]), "=r"(cells[2]), "=r"(cells[3])
               : "r"(shared_address(row))
               : "memory");
}
// Likewise of cells that are turned: a lane gets two elements of column lane / 4, of neighbouring rows.
__device__ __forceinline__ void load_turned_cells(unsigned (&cells)[4], const unsigned char* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(cells[0]), "=r"(cells[1]), "=r"(cells[2]), "=r"(cells[3])
               : "r"(shared_address(row))
               : "memory");
}
// What the lane has whose number differs in these bits.
__device__ __forceinline__ float of_lane(float value, int bits) {
  return __shfl_xor_sync(0xFFFFFFFF, value, bits);
}
__device__ __forceinline__ float power(float value) { return __expf(value); }
__device__ __forceinline__ unsigned two_half(float low, float high) {
  const half2 both = __floats2half2_rn(low, high);
  return *(const unsigned*)&both;
}
__device__ __forceinline__ unsigned two_bfloat(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *(const unsigned*)&both;
}

// 16 rows by 8 positions and 32 bytes of the reduced axis: two cells of rows for each 16 bytes, and
// one of positions.
#define GLENSIDE_PRODUCT(name, shape)                                                         \
  __device__ __forceinline__ void name(float (&sums)[4], const unsigned (&rows)[4],           \
                                       unsigned first, unsigned second) {                     \
    asm volatile("mma.sync.aligned." shape                                                    \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"           \
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                 \
                 : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(first),        \
                   "r"(second));                                                              \
  }
GLENSIDE_PRODUCT(warp_multiply_half, "m16n8k16.row.col.f32.f16.f16.f32")
GLENSIDE_PRODUCT(warp_multiply_bfloat, "m16n8k16.row.col.f32.bf16.bf16.f32")
GLENSIDE_PRODUCT(warp_multiply_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
#undef GLENSIDE_PRODUCT
}  // namespace glenside
