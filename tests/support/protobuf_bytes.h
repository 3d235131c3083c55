// Writes protobuf messages field by field, for logs in the formats of other programs.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace moescope {

inline std::string pb_varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

template <class Number>
std::string little_endian(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

inline std::string pb_number(int field, std::uint64_t value) {
  return pb_varint(static_cast<std::uint64_t>(field) << 3) + pb_varint(value);
}
inline std::string pb_double(int field, double value) {
  return pb_varint(static_cast<std::uint64_t>(field) << 3 | 1) + little_endian(value);
}
inline std::string pb_float(int field, float value) {
  return pb_varint(static_cast<std::uint64_t>(field) << 3 | 5) + little_endian(value);
}
inline std::string pb_bytes(int field, std::string_view value) {
  return pb_varint(static_cast<std::uint64_t>(field) << 3 | 2) + pb_varint(value.size()) + std::string(value);
}

}  // namespace moescope
