// Numbers in files, whose lowest byte comes first.
#pragma once

#include <cstdint>
#include <string_view>

namespace moescope {

// Returns the number that these bytes hold, at most eight.
inline std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

}  // namespace moescope
