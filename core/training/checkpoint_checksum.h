// The checksum of a checkpoint file: CRC-32 (zlib) over all its bytes, header and tensors, with the eight hex digits of
// the checksum itself counted as zeros. It detects any flipped bit, any two within 512 MB, and larger damage except for
// one case in 2^32.
#pragma once

#include <string>

namespace moescope {

inline constexpr const char* kChecksumKey = "crc32";        // key in the metadata of the file
inline constexpr const char* kChecksumToCome = "00000000";  // value until write_checksum()

// Writes the checksum into a safetensors file with kChecksumKey = kChecksumToCome. Throws std::runtime_error.
void write_checksum(const std::string& path);
// Throws std::runtime_error with the path if the checksum does not match or the file has none.
void require_checksum(const std::string& path);

}  // namespace moescope
