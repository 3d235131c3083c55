// Counts stored in 1, 2 or 4 bytes each, little-endian.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace moescope {

static_assert(std::endian::native == std::endian::little, "counts are copied in the byte order of memory");

// Returns the least of 1, 2 and 4 bytes that holds each of the counts.
inline std::size_t count_width(std::span<const std::uint32_t> counts) {
  std::uint32_t bits = 0;
  for (const std::uint32_t n : counts) bits |= n;
  if (bits >= 1u << 16) return 4;
  return bits >= 1u << 8 ? 2 : 1;
}

// Writes counts.size() * width bytes.
inline void narrow_counts(std::span<const std::uint32_t> counts, std::size_t width, std::uint8_t* bytes) {
  if (width == 1)
    std::ranges::transform(counts, bytes, [](std::uint32_t n) { return static_cast<std::uint8_t>(n); });
  else if (width == 2)
    for (std::size_t i = 0; i < counts.size(); ++i) std::memcpy(bytes + 2 * i, &counts[i], 2);
  else if (!counts.empty())
    std::memcpy(bytes, counts.data(), counts.size_bytes());
}

// Reads counts.size() * width bytes.
inline void widen_counts(const std::uint8_t* bytes, std::size_t width, std::span<std::uint32_t> counts) {
  if (width == 1)
    std::copy_n(bytes, counts.size(), counts.begin());
  else if (width == 2)
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = bytes[2 * i] | std::uint32_t{bytes[2 * i + 1]} << 8;
  else if (!counts.empty())
    std::memcpy(counts.data(), bytes, counts.size_bytes());
}

}  // namespace moescope
