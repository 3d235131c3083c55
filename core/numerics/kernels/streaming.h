// Tiles of a tensor that is quantized, and how their results go to memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#ifdef __SSE__
#include <immintrin.h>
#endif

#include "core/numerics/kernels/element_lanes.h"
#include "core/numerics/kernels/simd.h"
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
  // What will be wanted after the tile, in its rows: its values are fetched while the tile is quantized, and the pages
  // of its results touched.
  const float* next = nullptr;
  std::size_t next_stride = 0;
  float* next_out = nullptr;
};

inline Tile part_of(const Tile& t, std::size_t row, std::size_t col, std::size_t rows, std::size_t cols) {
  Tile part = t;
  part.x += row * t.stride + col;
  part.out += row * t.out_stride + col;
  if (t.column_keys) part.column_keys += col;
  if (t.next) part.next += row * t.next_stride + col, part.next_out += row * t.out_stride + col;
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

inline constexpr int kSecondCache = 2;      // for __builtin_prefetch: not into the first, where the values in use are
inline constexpr std::size_t kPage = 1024;  // floats of 4 KB
inline constexpr std::size_t kPagesAhead = 8;  // far enough for a page's address to be translated in time
inline constexpr std::size_t kAmaxAhead =
    4 * kPage;  // values are fetched where nothing but a largest magnitude is found

// Has the addresses of what will be written next translated meanwhile, by one value of each page: nothing fetches what
// is only written, and waiting at every page took up to a fifth of the time. Inlined always, for GCC drops the call of
// a function that does nothing but fetch.
MOESCOPE_INLINE void touch_pages(const Tile& t) {
  const auto page = [](const float* p) { return reinterpret_cast<std::uintptr_t>(p) / (kPage * sizeof(float)); };
  for (std::size_t r = 0; r < t.rows; ++r) {
    const float* first = t.next_out + r * t.out_stride;
    if (page(first) == page(t.out + r * t.out_stride)) continue;
    for (std::size_t c = 0; c < t.cols; c += kPage) __builtin_prefetch(first + c);
  }
}

// The part that follows the one at (row, col), the same one if it is the last.
inline Tile part_after(const Tile& t, std::size_t row, std::size_t col, std::size_t rows, std::size_t cols) {
  if (col + cols < t.cols) return part_of(t, row, col + cols, rows, cols);
  if (row + rows < t.rows) return part_of(t, row + rows, 0, rows, cols);
  return part_of(t, row, col, rows, cols);
}

// As for_each_part, each part of a large tile knowing the next one, unless the whole tile knows what comes after it.
void for_each_part_ahead(const Tile& t, std::size_t rows, std::size_t cols, const auto& body) {
  for (std::size_t r = 0; r < t.rows; r += std::min(rows, t.rows))
    for (std::size_t c = 0; c < t.cols; c += std::min(cols, t.cols)) {
      Tile part = part_of(t, r, c, rows, cols);
      if (!t.next) {
        const Tile after = t.large ? part_after(t, r, c, part.rows, part.cols) : part;
        part.next = after.x, part.next_stride = t.stride, part.next_out = after.out;
      }
      if (t.large) touch_pages(part);
      body(part);
    }
}

// body(first row, count of rows) for stretches of about a megabyte, the last one first: of what is read for its amax
// and then once more, the beginning is still in the caches. A stretch is long enough to be fetched in time.
void for_each_stretch_from_end(std::size_t rows, std::size_t cols, const auto& body) {
  constexpr std::size_t kStretchElements = 256 * 1024;
  const std::size_t stretch = std::max<std::size_t>(kStretchElements / std::max<std::size_t>(cols, 1), 1);
  for (std::size_t last = rows, first; last > 0; last = first) {
    first = last - std::min(stretch, last);
    body(first, last - first);
  }
}

struct Target {
  bool bypass;  // whole vectors go past the caches
  bool lines;   // in one piece each, which begins a line: for functions marked MOESCOPE_SIMD_LINES
};

inline Target target_of(const Tile& t) {
  const auto aligned = [&](std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(t.out) % bytes == 0 && t.out_stride * sizeof(float) % bytes == 0;
  };
#ifdef MOESCOPE_LINES
  return {t.large && aligned(16), t.large && aligned(64) && __builtin_cpu_supports("x86-64-v4")};
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

// A whole line, past the caches in one piece: four pieces take half as long again. Not in assembly, around which the
// compiler does not order a loop: a quarter more.
MOESCOPE_INLINE void write_line(float* out, Lanes<float> v) {
#ifdef MOESCOPE_LINES
  __builtin_ia32_movntps512(out, v);
#else
  store(out, v);
#endif
}

// `kLines`: target.lines, known to whoever compiles a loop for it.
template <bool kLines>
MOESCOPE_INLINE void write_vector(const Target& target, float* out, Lanes<float> v, std::size_t lanes) {
  if constexpr (kLines)
    if (lanes == kLanes<float>) return write_line(out, v);
  write_lanes(target, out, v, lanes);
}
// One value in all lanes. Broadcast as an integer it is loaded and no more; as a number, as the compiler would have it,
// it takes an arithmetic unit, too (Zen 4).
template <bool kLines>
MOESCOPE_INLINE Lanes<float> splat_at(const float* p) {
#ifdef MOESCOPE_LINES
  if constexpr (kLines) {
    Lanes<float> v;
    asm("vpbroadcastd %1, %0" : "=v"(v) : "m"(*p));
    return v;
  }
#endif
  return splat_at(p);
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
