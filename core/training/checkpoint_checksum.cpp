#include "core/training/checkpoint_checksum.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "core/files/input_file.h"
#include "core/files/text/words.h"

namespace moescope {
namespace {

constexpr std::size_t kDigits = 8;
constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // limit of the safetensors format

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw std::runtime_error(path + ": " + reason);
}

std::uint32_t add(std::uint32_t crc, std::string_view bytes) {
  return static_cast<std::uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

struct Checksum {
  std::size_t at = 0;  // byte of the file at which the digits begin
  std::string stated;  // digits in the file
  std::string found;   // computed from the bytes
};

Checksum checksum_of(const std::string& path) {
  InputFile file(path);
  std::string length(8, '\0');
  const bool has_length = file.read(length.data(), length.size()) == length.size();
  std::uint64_t header_bytes = 0;
  for (std::size_t i = length.size(); i-- > 0;) header_bytes = header_bytes << 8 | static_cast<std::uint8_t>(length[i]);
  std::string header(std::min(header_bytes, kLongestHeader), '\0');
  if (!has_length || file.read(header.data(), header.size()) != header.size())
    fail(path, "damaged checkpoint: it ends within its header");
  // Quotation marks within a JSON string are escaped, so that only the key itself matches.
  const std::string key = std::string("\"") + kChecksumKey + "\":\"";
  const auto found = header.find(key);
  if (found == std::string::npos || found + key.size() + kDigits > header.size())
    fail(path, std::string("damaged checkpoint: its metadata has no \"") + kChecksumKey + "\", its checksum");
  Checksum sum;
  const std::size_t at = found + key.size();
  sum.at = length.size() + at;
  sum.stated = header.substr(at, kDigits);
  header.replace(at, kDigits, kDigits, '0');
  std::uint32_t crc = add(add(0, length), header);
  std::vector<char> chunk(kChunk);
  while (const std::size_t read_bytes = file.read(chunk.data(), chunk.size()))
    crc = add(crc, {chunk.data(), read_bytes});
  sum.found = formatted("%08x", crc);
  return sum;
}

}  // namespace

void write_checksum(const std::string& path) {
  const Checksum sum = checksum_of(path);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(sum.at));
  file << sum.found << std::flush;
  if (!file) fail(path, std::string("cannot be written: ") + std::strerror(errno));
}

void require_checksum(const std::string& path) {
  const Checksum sum = checksum_of(path);
  if (sum.stated != sum.found)
    fail(path,
         "damaged checkpoint: its checksum is " + sum.found + ", but should be " + sum.stated + "; use an earlier one");
}

}  // namespace moescope
