// Stands in for the primitives of matrix-unit kernels, so that their text runs on a processor.
//
// Every thread is a fiber; a cluster's threads take turns. What is asynchronous on the device comes
// as late as it may: copies when they are waited for (until then their target is poisoned), products
// when their results are. A copy or product that is not waited for, or overwritten too early,
// gives NaN.
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define GLENSIDE_LOCAL(name) unsigned char* const name = emulator::fiber->group->local
#define GLENSIDE_LINES(name) GLENSIDE_LOCAL(name)

inline int after_earlier_kernels() { return 0; }

struct half {
  uint16_t bits;
};
struct __nv_bfloat16 {
  uint16_t bits;
};
using bfloat = __nv_bfloat16;
struct uint4 {
  unsigned x, y, z, w;
};
struct float4 {
  float x, y, z, w;
};
struct Place {
  unsigned x, y, z;
};

namespace emulator {
struct Copy {
  unsigned char* target;
  const void* source;
  bool there;
};
struct Product {
  float* sums[128];
  int count;
  int half;  // 1: half floats, 2: bfloat16, 0: tf32.
  unsigned long long a, b;
  bool add;
};
struct Meeting {  // Of threads at a barrier.
  int arrived = 0, generation = 0;
};
struct Warpgroup {
  Meeting meeting;
  std::vector<Product> open;
  std::deque<std::vector<Product>> committed;
  Product next;
  int given = 0;
};
struct Warp {
  Meeting meeting;
  const unsigned char* rows[32];
  unsigned a[32][4], b[32][2];
};
struct Turned {  // Blocks that a warp's threads are about to store.
  unsigned char* places[32];
  unsigned blocks[32][4];
  int given = 0;
  Meeting meeting;
};
struct Group {
  unsigned char* local;
  int rank;
  Place place;
  Meeting meeting;
  std::vector<Warpgroup> warpgroups;
  std::vector<Warp> warps;
  std::map<int, Turned> turned;
};
struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  Group* group;
  int thread;
  bool done = false;
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> committed;
};

inline Fiber* fiber;
inline ucontext_t scheduler;
inline std::vector<Group>* cluster;
inline Meeting cluster_meeting;
inline int threads, local_bytes;
inline std::map<const void*, std::vector<Copy>> runs;  // Under way, by where they arrive.
inline std::string problem;
inline std::vector<std::pair<const unsigned char*, const unsigned char*>> memory;
inline bool progress;

inline void report(const std::string& text) {
  if (problem.empty()) problem = text;
}
inline void yield() { swapcontext(&fiber->context, &scheduler); }
inline void meet(Meeting& meeting, int all, const std::function<void()>& last = [] {}) {
  const int generation = meeting.generation;
  if (++meeting.arrived == all) {
    last();
    meeting.arrived = 0;
    ++meeting.generation;
    progress = true;
    return;
  }
  while (meeting.generation == generation) yield();
}
inline Warpgroup& warpgroup() { return fiber->group->warpgroups[fiber->thread / 128]; }

inline float to_float(half value) {
  const unsigned sign = value.bits >> 15, exponent = value.bits >> 10 & 31, part = value.bits & 1023;
  float result;
  if (exponent == 31)
    result = part ? NAN : INFINITY;
  else if (exponent == 0)
    result = std::ldexp((float)part, -24);
  else
    result = std::ldexp((float)(part + 1024), (int)exponent - 25);
  return sign ? -result : result;
}
inline float to_float(bfloat value) {
  const uint32_t raw = (uint32_t)value.bits << 16;
  float result;
  std::memcpy(&result, &raw, 4);
  return result;
}
inline bfloat to_bfloat(float value) {
  uint32_t raw;
  std::memcpy(&raw, &value, 4);
  if (std::isnan(value)) return {0x7fff};
  return {(uint16_t)((raw + 0x7fff + (raw >> 16 & 1)) >> 16)};
}
inline half to_half(float value) {
  uint32_t raw;
  std::memcpy(&raw, &value, 4);
  const uint16_t sign = raw >> 16 & 0x8000;
  if (std::isnan(value)) return {(uint16_t)(sign | 0x7e00)};
  const float size = std::fabs(value);
  if (size >= 65520.0f) return {(uint16_t)(sign | 0x7c00)};
  int exponent;
  std::frexp(size, &exponent);
  const int unit = std::max(exponent - 11, -24);  // Of the last bit.
  const float rest = std::nearbyint(std::ldexp(size, -unit));
  uint16_t bits = 0;
  if (rest > 0) {
    int e;
    const float mantissa = std::frexp(rest, &e);
    const int power = unit + e - 1;
    if (power < -14)
      bits = (uint16_t)std::ldexp(rest, unit + 24);
    else
      bits = (uint16_t)((power + 15) << 10 | ((int)std::ldexp(mantissa, 11) - 1024));
  }
  return {(uint16_t)(sign | bits)};
}

inline float cell(unsigned long long operand, int line, int k, int half_floats) {
  // Bits of the descriptor: address, lead and stride in 16 bytes, no swizzle.
  const unsigned start = (operand & 0x3fff) << 4, lead = (operand >> 16 & 0x3fff) << 4;
  const unsigned stride = (operand >> 32 & 0x3fff) << 4, kind = operand >> 62;
  if (operand >> 46 & 0xffff) report("a descriptor has bits it should not have");
  const int size = half_floats ? 2 : 4, unit = 16 / size;
  unsigned at = start + line / 8 * stride + line % 8 * 16 + k / unit * lead + k % unit * size;
  if (kind) {  // Lines, whose units of 16 bytes are swapped by the address.
    const unsigned length = 256 >> kind;
    if (stride != 8 * length) report("lines that do not follow each other");
    at = start + line * length + k * size;
    at ^= (at >> 7 & (length / 16 - 1)) << 4;
  }
  if (at + size > (unsigned)local_bytes) {
    report("a product reads beyond local memory");
    return NAN;
  }
  const unsigned char* place = fiber->group->local + at;
  if (half_floats == 2) return to_float(*(const bfloat*)place);
  if (half_floats) return to_float(*(const half*)place);
  uint32_t raw;
  std::memcpy(&raw, place, 4);
  raw &= 0xffffe000;
  float value;
  std::memcpy(&value, &raw, 4);
  return value;
}
inline void multiply(const Product& product) {
  const int columns = product.count * 2, depth = product.half ? 16 : 8;
  std::vector<float> a(64 * depth), b(columns * depth);
  for (int k = 0; k < depth; ++k) {
    for (int row = 0; row < 64; ++row) a[row * depth + k] = cell(product.a, row, k, product.half);
    for (int column = 0; column < columns; ++column)
      b[column * depth + k] = cell(product.b, column, k, product.half);
  }
  for (int thread = 0; thread < 128; ++thread)
    for (int k = 0; k < product.count; ++k) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + k % 4 / 2 * 8;
      const int column = k / 4 * 8 + thread % 4 * 2 + k % 2;
      float total = 0;
      for (int j = 0; j < depth; ++j) total += a[row * depth + j] * b[column * depth + j];
      float& sum = product.sums[thread][k];
      sum = product.add ? sum + total : total;
    }
}
inline void give(float* sums, int count, int half_floats, unsigned long long a,
                 unsigned long long b, bool add) {
  Warpgroup& own = warpgroup();
  if (own.given == 0) own.next = Product{{}, count, half_floats, a, b, add};
  if (own.next.a != a || own.next.b != b) report("threads of a warpgroup disagree");
  own.next.sums[fiber->thread % 128] = sums;
  ++own.given;
  meet(own.meeting, 128, [&] {
    own.open.push_back(own.next);
    own.given = 0;
  });
}
// Of a register of a product of warps, its element; ``kind`` as in Product.
inline float element(int kind, unsigned bits, int number) {
  if (kind == 1) return to_float(half{(uint16_t)(bits >> number * 16)});
  if (kind == 2) return to_float(bfloat{(uint16_t)(bits >> number * 16)});
  bits &= 0xffffe000;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline void warp_multiply(int kind, float (&sums)[4], const unsigned (&rows)[4], unsigned first,
                          unsigned second) {
  const int lane = fiber->thread % 32, each = kind ? 2 : 1;
  Warp& own = fiber->group->warps[fiber->thread / 32];
  std::memcpy(own.a[lane], rows, 16);
  own.b[lane][0] = first, own.b[lane][1] = second;
  meet(own.meeting, 32);
  for (int part = 0; part < 4; ++part) {
    const int row = lane / 4, column = lane % 4 * 2 + part % 2;
    float total = 0;
    for (int part_k = 0; part_k < 2; ++part_k)
      for (int at = 0; at < 4; ++at)
        for (int k = 0; k < each; ++k)
          total += element(kind, own.a[row * 4 + at][part_k * 2 + part / 2], k) *
                   element(kind, own.b[column * 4 + at][part_k], k);
    sums[part] += total;
  }
  meet(own.meeting, 32);
}
}  // namespace emulator

#define threadIdx (Place{(unsigned)emulator::fiber->thread, 0, 0})
#define blockIdx (emulator::fiber->group->place)

namespace glenside {
inline float number(half value) { return emulator::to_float(value); }
inline float number(bfloat value) { return emulator::to_float(value); }
inline float number(float value) { return value; }
inline float rounded_bfloat(float value) {
  return emulator::to_float(emulator::to_bfloat(value));
}
inline float rounded(float value) { return emulator::to_float(emulator::to_half(value)); }
inline int bits(float value) {
  int raw;
  std::memcpy(&raw, &value, 4);
  return raw;
}
template <typename T>
inline uint4 packed(const T* values) {
  uint4 result;
  std::memcpy(&result, values, 16);
  return result;
}
inline uint4 stored(const float (&values)[8]) {
  half halves[8];
  for (int k = 0; k < 8; ++k) halves[k] = emulator::to_half(values[k]);
  return packed(halves);
}
inline uint4 stored_bfloat(const float (&values)[8]) {
  bfloat halves[8];
  for (int k = 0; k < 8; ++k) halves[k] = emulator::to_bfloat(values[k]);
  return packed(halves);
}
inline uint4 stored(const float (&values)[4]) { return packed(values); }
inline void assign(half& place, float value) { place = emulator::to_half(value); }
inline void assign(bfloat& place, float value) { place = emulator::to_bfloat(value); }
inline void assign(float& place, float value) { place = value; }

inline void copy(unsigned char* target, const void* source, bool there) {
  using namespace emulator;
  const long at = target - fiber->group->local;
  if (at < 0 || at + 16 > local_bytes || at % 16) report("a copy to outside of local memory");
  if ((uintptr_t)source % 16) report("a copy from an odd place");
  bool inside = !there;
  for (const auto& [low, high] : memory)
    inside |= (const unsigned char*)source >= low && (const unsigned char*)source + 16 <= high;
  if (!inside) {
    report("a copy from outside of all buffers");
    return;
  }
  std::memset(target, 0xff, 16);
  fiber->open.push_back({target, source, there});
}
inline void copies_commit() {
  emulator::fiber->committed.push_back(std::move(emulator::fiber->open));
  emulator::fiber->open.clear();
}
template <int PENDING>
inline void copies_wait() {
  auto& committed = emulator::fiber->committed;
  while ((int)committed.size() > PENDING) {
    for (const auto& one : committed.front()) {
      if (one.there)
        std::memcpy(one.target, one.source, 16);
      else
        std::memset(one.target, 0, 16);
    }
    committed.pop_front();
  }
}
struct Arrival {
  // ``rest`` bytes of the round under way are to come: below zero where they are not expected yet.
  short rounds, arrivals, arrived;
  short unused;
};
static_assert(sizeof(Arrival) == 8, "as many bytes as a barrier has");
inline std::map<const Arrival*, int> rests;
inline void prepare(Arrival& arrival, int arrivals = 1) {
  arrival = {0, (short)arrivals, 0, 0};
  rests[&arrival] = 0;
}
inline void prepared() {}
// Ends the round where all have arrived.
inline void settle(Arrival& arrival) {
  if (arrival.arrived < arrival.arrivals || rests[&arrival] != 0) return;
  auto& runs = emulator::runs[&arrival];
  for (const auto& one : runs) {
    if (one.there)
      std::memcpy(one.target, one.source, 16);
    else
      std::memset(one.target, 0, 16);
  }
  runs.clear();
  arrival.arrived = 0;
  ++arrival.rounds;
  emulator::progress = true;
}
inline void arrive(Arrival& arrival) {
  if (++arrival.arrived > arrival.arrivals) emulator::report("more arrivals than there may be");
  if (emulator::runs[&arrival].empty()) settle(arrival);
}
inline void expect(Arrival& arrival, int size) {
  if (++arrival.arrived > arrival.arrivals)
    emulator::report("a run is asked for before the last came");
  rests[&arrival] += size;
}
inline void copy_run(unsigned char* target, const void* source, int size, Arrival& arrival) {
  if (size % 16) emulator::report("a run that is not made of 16 bytes");
  for (int at = 0; at < size; at += 16) {
    copy(target + at, (const unsigned char*)source + at, true);
    emulator::runs[&arrival].push_back(emulator::fiber->open.back());
    emulator::fiber->open.pop_back();
    rests[&arrival] -= 16;
  }
}
inline void wait_for(Arrival& arrival, int round) {
  using namespace emulator;
  while (arrival.rounds == round) {
    settle(arrival);
    if (arrival.rounds == round) yield();
  }
  if (arrival.rounds != round + 1) report("a run is waited for in the wrong round");
}
struct TensorMap {
  const unsigned char* start;
  int rank;
  long sizes[5], strides[5];  // Elements, bytes.
  int box[5], steps[5], line, bytes;
};
template <int RANK>
inline void copy_box(unsigned char* target, const TensorMap& map, const int (&at)[RANK],
                     Arrival& arrival) {
  using namespace emulator;
  if (RANK != map.rank) report("a map of another rank");
  if (map.box[0] * map.bytes != map.line) report("a box of other lines");
  if ((target - fiber->group->local) % 1024) report("a box at an odd place");
  int index[5] = {}, count[5] = {1, 1, 1, 1, 1};
  for (int d = 1; d < RANK; ++d) count[d] = (map.box[d] + map.steps[d] - 1) / map.steps[d];
  const int lines = count[1] * count[2] * count[3] * count[4];
  for (int line = 0; line < lines; ++line) {
    int rest = line;
    for (int d = 1; d < RANK; ++d) index[d] = rest % count[d], rest /= count[d];
    long place = 0;
    bool there = true;
    for (int d = 1; d < RANK; ++d) {
      const long position = at[d] + (long)index[d] * map.steps[d];
      there &= position >= 0 && position < map.sizes[d];
      place += position * map.strides[d];
    }
    for (int unit = 0; unit < map.line / 16; ++unit) {
      const long first = at[0] + unit * (16 / map.bytes);
      // Where a unit ends beyond the tensor, the rest of it would be zero.
      const bool inside = there && first >= 0 && first < map.sizes[0];
      if (inside && first + 16 / map.bytes > map.sizes[0]) report("a part of a unit");
      unsigned offset = target - fiber->group->local + line * map.line + unit * 16;
      offset ^= (offset >> 7 & (map.line / 16 - 1)) << 4;
      copy(fiber->group->local + offset, map.start + place + first * map.bytes, inside);
      runs[&arrival].push_back(fiber->open.back());
      fiber->open.pop_back();
      rests[&arrival] -= 16;
    }
  }
}
inline void warpgroup_wait(int name) {
  if (name < 1 || name > 15) emulator::report("a barrier with no name");
  emulator::meet(emulator::warpgroup().meeting, 128);
}
template <int COUNT>
inline void registers_fewer() {}
template <int COUNT>
inline void registers_more() {}
template <int LINE>
inline unsigned long long lines(const unsigned char* start) {
  const unsigned long long at = start - emulator::fiber->group->local;
  if (at % 1024) emulator::report("lines at an odd place");
  const unsigned long long kind = LINE == 128 ? 1 : LINE == 64 ? 2 : 3;
  return at >> 4 | 1ull << 16 | (unsigned long long)(LINE * 8 >> 4) << 32 | kind << 62;
}
inline unsigned pair_of_halves(float first, float second) {
  return emulator::to_half(first).bits | (unsigned)emulator::to_half(second).bits << 16;
}
inline void store_blocks(unsigned char* place, const unsigned (&blocks)[4], int count) {
  using namespace emulator;
  Turned& own = fiber->group->turned[fiber->thread / 32];
  own.places[fiber->thread % 32] = place;
  std::memcpy(own.blocks[fiber->thread % 32], blocks, sizeof blocks);
  meet(own.meeting, 32, [&] {
    for (int block = 0; block < count; ++block)
      for (int column = 0; column < 8; ++column) {
        unsigned char* const run = own.places[block * 8 + column];
        const long at = run - fiber->group->local;
        if (at < 0 || at + 16 > local_bytes || at % 16) report("blocks to outside of local memory");
        for (int row = 0; row < 8; ++row) {
          const unsigned pair = own.blocks[row * 4 + column / 2][block];
          ((uint16_t*)run)[row] = column % 2 ? pair >> 16 : pair & 0xffff;
        }
      }
  });
}
inline void store_turned(unsigned char* place, unsigned a, unsigned b, unsigned c, unsigned d) {
  store_blocks(place, {a, b, c, d}, 4);
}
inline void store_turned(unsigned char* place, unsigned a, unsigned b) {
  store_blocks(place, {a, b, 0, 0}, 2);
}
template <typename T, int COUNT>
inline void fetch(const T* from, float (&values)[COUNT]) {
  if ((uintptr_t)from % (sizeof(T) * (COUNT > 4 && sizeof(T) == 4 ? 4 : COUNT)))
    emulator::report("a vector at an odd place");
  for (int k = 0; k < COUNT; ++k) values[k] = number(from[k]);
}
inline void visible_to_products() {}
inline void products_begin() {}
inline void products_commit() {
  auto& own = emulator::warpgroup();
  emulator::meet(own.meeting, 128, [&] {
    own.committed.push_back(std::move(own.open));
    own.open.clear();
  });
}
template <int PENDING>
inline void products_wait() {
  auto& own = emulator::warpgroup();
  emulator::meet(own.meeting, 128, [&] {
    while ((int)own.committed.size() > PENDING) {
      for (const auto& product : own.committed.front()) emulator::multiply(product);
      own.committed.pop_front();
    }
  });
}
inline unsigned long long operand(const unsigned char* start, int lead) {
  const unsigned long long at = start - emulator::fiber->group->local;
  if (at % 16 || lead % 16) emulator::report("an operand at an odd place");
  return at >> 4 | (unsigned long long)(lead >> 4) << 16 | (unsigned long long)(128 >> 4) << 32;
}
inline void load_cells(unsigned (&cells)[4], const unsigned char* row) {
  using namespace emulator;
  const long at = row - fiber->group->local;
  if (at < 0 || at + 16 > local_bytes || at % 16) report("a cell outside of local memory");
  const int lane = fiber->thread % 32;
  Warp& own = fiber->group->warps[fiber->thread / 32];
  own.rows[lane] = row;
  meet(own.meeting, 32);
  if (problem.empty())
    for (int cell = 0; cell < 4; ++cell)
      std::memcpy(&cells[cell], own.rows[cell * 8 + lane / 4] + lane % 4 * 4, 4);
  meet(own.meeting, 32);
}
inline void load_turned_cells(unsigned (&cells)[4], const unsigned char* row) {
  using namespace emulator;
  const long at = row - fiber->group->local;
  if (at < 0 || at + 16 > local_bytes || at % 16) report("a cell outside of local memory");
  const int lane = fiber->thread % 32;
  Warp& own = fiber->group->warps[fiber->thread / 32];
  own.rows[lane] = row;
  meet(own.meeting, 32);
  if (problem.empty())
    for (int cell = 0; cell < 4; ++cell)
      for (int k = 0; k < 2; ++k)
        std::memcpy((char*)&cells[cell] + k * 2,
                    own.rows[cell * 8 + lane % 4 * 2 + k] + lane / 4 * 2, 2);
  meet(own.meeting, 32);
}
inline float of_lane(float value, int bits) {
  using namespace emulator;
  const int lane = fiber->thread % 32;
  Warp& own = fiber->group->warps[fiber->thread / 32];
  std::memcpy(&own.a[lane][0], &value, 4);
  meet(own.meeting, 32);
  std::memcpy(&value, &own.a[lane ^ bits][0], 4);
  meet(own.meeting, 32);
  return value;
}
inline float power(float value) { return std::exp(value); }
inline unsigned two_half(float low, float high) {
  const half both[2] = {emulator::to_half(low), emulator::to_half(high)};
  unsigned result;
  std::memcpy(&result, both, 4);
  return result;
}
inline unsigned two_bfloat(float low, float high) {
  const bfloat both[2] = {emulator::to_bfloat(low), emulator::to_bfloat(high)};
  unsigned result;
  std::memcpy(&result, both, 4);
  return result;
}
#define EMULATED_PRODUCT(name, kind)                                                   \
  inline void name(float (&sums)[4], const unsigned (&rows)[4], unsigned first,        \
                   unsigned second) {                                                  \
    emulator::warp_multiply(kind, sums, rows, first, second);                          \
  }
EMULATED_PRODUCT(warp_multiply_tf32, 0)
EMULATED_PRODUCT(warp_multiply_half, 1)
EMULATED_PRODUCT(warp_multiply_bfloat, 2)

inline void group_wait() { emulator::meet(emulator::fiber->group->meeting, emulator::threads); }
inline void cluster_wait() {
  emulator::meet(emulator::cluster_meeting, emulator::threads * (int)emulator::cluster->size());
}
inline float of_group(const float* own, int rank) {
  using namespace emulator;
  const long at = (const unsigned char*)own - fiber->group->local;
  if (at < 0 || at + 4 > local_bytes) report("a read beyond local memory");
  return *(const float*)((*cluster)[rank].local + at);
}
inline float4 of_group4(const float* own, int rank) {
  if ((uintptr_t)own % 16) emulator::report("a vector at an odd place");
  return {of_group(own, rank), of_group(own + 1, rank), of_group(own + 2, rank),
          of_group(own + 3, rank)};
}
}  // namespace glenside

namespace emulator {
inline std::function<void()> body;
inline void enter() {
  body();
  fiber->done = true;
  progress = true;
  for (;;) swapcontext(&fiber->context, &scheduler);
}
// Runs a launch whose clusters lie along z.
inline void launch(const int grid[3], int count, int bytes, const std::function<void()>& kernel) {
  threads = count;
  local_bytes = bytes;
  body = kernel;
  const int guard = 4096;
  for (int y = 0; y < grid[1] && problem.empty(); ++y)
    for (int x = 0; x < grid[0] && problem.empty(); ++x) {
      const int together = grid[2];
      std::vector<Group> groups(together);
      std::vector<std::vector<unsigned char>> local(together);
      std::vector<Fiber> fibers((size_t)together * count);
      cluster = &groups;
      cluster_meeting = {};
      runs.clear();
      for (int z = 0; z < together; ++z) {
        local[z].assign(bytes + 2 * guard + 1024, 0xff);
        const uintptr_t start = (uintptr_t)local[z].data() + guard;
        groups[z].local = (unsigned char*)((start + 1023) / 1024 * 1024);
        groups[z].rank = z;
        groups[z].place = {(unsigned)x, (unsigned)y, (unsigned)z};
        groups[z].warpgroups.resize((count + 127) / 128);
        groups[z].warps.resize(count / 32);
        for (int thread = 0; thread < count; ++thread) {
          Fiber& one = fibers[(size_t)z * count + thread];
          one.group = &groups[z];
          one.thread = thread;
          one.stack.reset(new char[65536]);
          getcontext(&one.context);
          one.context.uc_stack.ss_sp = one.stack.get();
          one.context.uc_stack.ss_size = 65536;
          one.context.uc_link = nullptr;
          makecontext(&one.context, enter, 0);
        }
      }
      for (bool left = true; left && problem.empty();) {
        left = progress = false;
        for (Fiber& one : fibers) {
          if (one.done) continue;
          left = true;
          fiber = &one;
          swapcontext(&scheduler, &one.context);
        }
        if (left && !progress) report("threads wait for each other");
      }
      for (int z = 0; z < together; ++z) {
        const unsigned char* end = local[z].data() + local[z].size();
        for (const unsigned char* at = groups[z].local + bytes; at < end; ++at)
          if (*at != 0xff) report("a write beyond local memory");
      }
      for (const Fiber& one : fibers)
        for (const auto& group : one.committed)
          if (!group.empty()) report("copies that nobody waits for");
    }
}
}  // namespace emulator
