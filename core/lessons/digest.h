// FNV-1a, a 64-bit hash by which equal contents are recognised. It does not protect against made-up contents.
#pragma once

#include <fmt/core.h>

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace moescope {

class Digest {
 public:
  void add(std::uint8_t byte) { hash_ = (hash_ ^ byte) * 1099511628211u; }
  void add(std::string_view text) {
    for (const char c : text) add(static_cast<std::uint8_t>(c));
  }
  // Adds the bits of the values, lowest byte first, so that every processor gives the same hash.
  void add(std::span<const float> values) {
    for (const float value : values)
      for (int shift = 0; shift < 32; shift += 8)
        add(static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(value) >> shift));
  }
  std::uint64_t value() const { return hash_; }
  std::string text() const {  // 16 hexadecimal digits
    return fmt::format("{:016x}", hash_);
  }

 private:
  std::uint64_t hash_ = 14695981039346656037u;
};

}  // namespace moescope
