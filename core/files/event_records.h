// Records of a TensorBoard event file. Each is framed as TFRecord: uint64 length, uint32 masked CRC32C of these eight
// bytes, the bytes of the record, uint32 masked CRC32C of them, all little-endian. The mask rotates the sum right by 15
// bits and adds 0xa282ead8, so that sums of data that hold sums stay good.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace moescope {

std::uint32_t crc32c(std::string_view bytes);  // Castagnoli's polynomial, reflected 0x82f63b78
std::uint32_t masked_crc32c(std::string_view bytes);

inline constexpr std::size_t kRecordHeaderBytes = 12;
// Whether these bytes begin with the header of a record.
bool begins_with_record(std::string_view bytes);

enum class RecordState {
  whole,       // `record` is set
  cut_off,     // the bytes end within it: a file that is still being written, or was cut
  bad_record,  // its bytes do not fit their sum: skipped, what follows can be read
  bad_header,  // its length does not fit its sum: nothing after it can be found
};
// Takes the first record off `bytes`; of one cut off and after a bad header `bytes` stays.
RecordState take_record(std::string_view& bytes, std::string_view& record);

std::string framed_record(std::string_view record);  // for writers

}  // namespace moescope
