// Reads and writes the records of a TensorBoard event file. Each is framed as TFRecord: uint64 length, uint32 masked
// CRC32C of these eight bytes, the bytes of the record, uint32 masked CRC32C of these bytes, all little-endian. The
// mask rotates the CRC right by 15 bits and adds 0xa282ead8, because a CRC over data that contains CRCs is weak.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace moescope {

std::uint32_t crc32c(std::string_view bytes);  // Castagnoli's polynomial, reflected 0x82f63b78

inline constexpr std::size_t kRecordHeaderBytes = 12;
// True if the bytes begin with the header of a record.
bool begins_with_record(std::string_view bytes);

enum class RecordState {
  whole,       // `record` is set
  cut_off,     // the bytes end within the record: the file is still being written or was truncated
  bad_record,  // the checksum of the record is wrong; the next record can be read
  bad_header,  // the checksum of the length is wrong; later records cannot be found
};
// Removes the first record from `bytes` and sets `record` to it. Leaves `bytes` unchanged if the record is cut off or
// its header is bad.
RecordState take_record(std::string_view& bytes, std::string_view& record);

std::string framed_record(std::string_view record);  // bytes of the record in a file

}  // namespace moescope
