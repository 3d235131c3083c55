// Tiles of a tensor that is quantized, and how their results go to memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "core/numerics/lanes.h"
#include "core/numerics/operand_format.h"

namespace moescope {

struct Tile {
  const float* x;
  std::size_t stride, rows, cols;
  float* out;
  std::size_t out_stride;
  RoundingKey key;                             // with the tile's own first row and column
  const std::uint32_t* column_keys = nullptr;  // of the tile's columns (counter_bits.h) and 15 more; stochastic alone
  bool large = false;  // part of what no cache holds: results bypass the caches, and values are fetched ahead
  // What will be wanted after the tile: fetched in its rows, value by value, while the tile is quantized.
  const float* next = nullptr;
  std::size_t next_stride = 0;
};

inline Tile part_of(const Tile& t, std::size_t row, std::size_t col, std::size_t rows, std::size_t cols) {
  Tile part = t;
  part.x += row * t.stride + col;
  part.out += row * t.out_stride + col;
  if (t.column_keys) part.column_keys += col;
  if (t.next) part.next += row * t.next_stride + col;
  part.rows = std::min(rows, t.rows - row);
  part.cols = std::min(cols, t.cols - col);
  part.key.first_row += static_cast<std::uint32_t>(row);
  part.key.first_col += static_cast<std::uint32_t>(col);
  return part;
}

void for_each_part(const Tile& t, std::size_t rows, std::size_t cols, const auto& body) {
  for (std::size_t r = 0; r < t.rows; r += std::min(rows, t.rows))
    for (std::size_t c = 0; c < t.cols; c += std::min(cols, t.cols)) body(part_of(t, r, c, rows, cols));
}

// The tile, with values `ahead` of its own to be fetched if nothing else is.
inline Tile fetching(Tile t, std::size_t ahead) {
  if (t.next) return t;
  t.next = t.x + (t.large ? ahead : 0);
  t.next_stride = t.stride;
  return t;
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define MOESCOPE_LINES
#endif

struct Target {
  bool bypass;  // whole vectors go past the caches
  bool lines;   // in one piece each, if they begin a line
};

inline Target target_of(const Tile& t) {
  const auto aligned = [&](std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(t.out) % bytes == 0 && t.out_stride * sizeof(float) % bytes == 0;
  };
#ifdef MOESCOPE_LINES
  return {t.large && aligned(16), t.large && aligned(64) && __builtin_cpu_supports("avx512f")};
#elif defined(__SSE__)
  return {t.large && aligned(16), false};
#else
  return {false, false};
#endif
}

// The first `lanes` of v; `out` must be aligned to 16 bytes to go past the caches.
MOESCOPE_INLINE void write_lanes(const Target& target, float* out, Lanes<float> v, std::size_t lanes) {
  if (lanes < kLanes<float>) return store_first(out, v, static_cast<int>(lanes));
#ifdef __SSE__
  if (target.bypass) {
    __m128 quarters[4];
    std::memcpy(quarters, &v, sizeof(v));
    for (int i = 0; i < 4; ++i) _mm_stream_ps(out + 4 * i, quarters[i]);
    return;
  }
#endif
  store(out, v);
}

// A whole line, past the caches in one piece: four pieces take half as long again. In assembly, because a function that
// is compiled for several instruction sets cannot name what only one of them has.
MOESCOPE_INLINE void write_line(float* out, Lanes<float> v) {
#ifdef MOESCOPE_LINES
  asm volatile("vmovups %1, %%zmm0\n\tvmovntps %%zmm0, %0"
               : "=m"(*reinterpret_cast<Lanes<float>*>(out))
               : "vm"(v)
               : "xmm0");
#else
  store(out, v);
#endif
}

// `kLines`: target.lines, known to whoever compiles a loop for it.
template <bool kLines>
MOESCOPE_INLINE void write_vector(const Target& target, float* out, Lanes<float> v, std::size_t lanes) {
  if (kLines && lanes == kLanes<float>) return write_line(out, v);
  write_lanes(target, out, v, lanes);
}

// What went past the caches is in memory before anything that follows.
inline void finish_writing(const Tile& t) {
#ifdef __SSE__
  if (t.large) _mm_sfence();
#endif
}

// body(i, values, how many of them) for a stretch of values, sixteen at a time. Where `room` is left in the row for a
// whole vector, the last one is whole, too, with zeros for what is not of the stretch: written, they are to be followed
// by what belongs there.
template <class Body>
MOESCOPE_INLINE void for_each_vector(const float* x, std::size_t count, std::size_t room, const Body& body) {
  constexpr std::size_t kWidth = kLanes<float>;
  typedef std::int32_t Mask __attribute__((vector_size(64)));
  std::size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) body(i, load(x + i), kWidth);
  if (i == count) return;
  if (i + kWidth > room) return body(i, load_first(x + i, static_cast<int>(count - i)), count - i);
  constexpr Mask kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  body(i, (Lanes<float>)((Mask)load(x + i) & (kLane < static_cast<std::int32_t>(count - i))), kWidth);
}
template <class Body>
MOESCOPE_INLINE void for_each_vector(const float* x, std::size_t count, const Body& body) {
  for_each_vector(x, count, count, body);
}

}  // namespace moescope
