#include "core/logs/events/event_records.h"

#include <array>
#include <bit>

#include "core/files/little_endian.h"

namespace moescope {

namespace {

static_assert(std::endian::native == std::endian::little, "lengths are written in the byte order of memory");

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = sum & 1 ? sum >> 1 ^ 0x82f63b78u : sum >> 1;
    table[byte] = sum;
  }
  return table;
}();

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t sum = ~0u;
  for (const char c : bytes) sum = kCrcTable[(sum ^ static_cast<unsigned char>(c)) & 0xff] ^ sum >> 8;
  return ~sum;
}

bool begins_with_record(std::string_view bytes) {
  return bytes.size() >= kRecordHeaderBytes && little_endian(bytes.substr(8, 4)) == masked_crc32c(bytes.substr(0, 8));
}

RecordState take_record(std::string_view& bytes, std::string_view& record) {
  if (bytes.size() < kRecordHeaderBytes) return RecordState::cut_off;
  if (!begins_with_record(bytes)) return RecordState::bad_header;
  const std::uint64_t length = little_endian(bytes.substr(0, 8));
  const std::size_t remaining = bytes.size() - kRecordHeaderBytes;
  if (remaining < sizeof(std::uint32_t) || length > remaining - sizeof(std::uint32_t)) return RecordState::cut_off;
  record = bytes.substr(kRecordHeaderBytes, length);
  const std::uint64_t sum = little_endian(bytes.substr(kRecordHeaderBytes + length, sizeof(std::uint32_t)));
  bytes.remove_prefix(kRecordHeaderBytes + length + sizeof(std::uint32_t));
  return sum == masked_crc32c(record) ? RecordState::whole : RecordState::bad_record;
}

std::string framed_record(std::string_view record) {
  const std::uint64_t length = record.size();
  std::string out(bytes_of(length));
  out += bytes_of(masked_crc32c(bytes_of(length)));
  out += record;
  out += bytes_of(masked_crc32c(record));
  return out;
}

}  // namespace moescope
