// The checksum of a checkpoint file: CRC-32 (zlib) over all its bytes, header and tensors, with the checksum's own
// eight hex digits counted as zeros. It detects any flipped bit, any two within 512 MB, and larger damage except for
// one case in 2^32.
#pragma once

#include <string>

namespace moescope {

inline constexpr const char* kChecksumKey = "crc32";        // of the file's metadata
inline constexpr const char* kChecksumToCome = "00000000";  // its value until write_checksum()

// Writes it into a safetensors file whose metadata has kChecksumKey = kChecksumToCome. Throws std::runtime_error.
void write_checksum(const std::string& path);
// Throws std::runtime_error with the path if the checksum does not match or the file has none.
void require_checksum(const std::string& path);

}  // namespace moescope
