// The checksum of a checkpoint file: CRC-32 (zlib) over every byte of it, header and tensors, with the eight hex digits
// that it is written in taken as zeros. It finds any one flipped bit, any two within 512 MB, and of larger damage all
// but one in 2^32.
#pragma once

#include <string>

namespace moescope {

inline constexpr const char* kChecksumKey = "crc32";        // of the file's metadata
inline constexpr const char* kChecksumToCome = "00000000";  // its value until write_checksum()

// Into a safetensors file whose metadata has kChecksumKey = kChecksumToCome. Throws std::runtime_error.
void write_checksum(const std::string& path);
// Throws std::runtime_error with the path: the bytes are not those that were written, or the file has no checksum.
void require_checksum(const std::string& path);

}  // namespace moescope
