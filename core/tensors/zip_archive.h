// The entries of a zip archive, read by minizip: stored as they are or compressed by deflate, zip64 or not. Bytes of
// stored entries stay where they lie in the mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tensors/tensor_file.h"

namespace moescope {

struct ZipEntry {
  std::string name;
  std::size_t bytes = 0;  // unpacked
  std::size_t first = 0;  // of stored ones, in the file
  bool deflated = false;
  std::uint32_t crc32 = 0;
  std::size_t in_directory = 0;  // where minizip finds it again
};

// What an entry holds.
struct StoredBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const PartChecksum> checksum;  // nullptr: none, or compared already
};

class ZipArchive {
 public:
  // Throws std::runtime_error "PATH: ...": no archive, damaged, encrypted, two entries of one name.
  explicit ZipArchive(MappedTensors& file);
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;  // nullptr: there is none

  // Compressed ones are unpacked into memory that `file` owns; nullopt: all of them take more than kMostUnpackedBytes.
  // Throws std::runtime_error "PATH: ..." where one is damaged.
  std::optional<StoredBytes> stored(const ZipEntry& entry);
  // The same, copied and compared with its checksum.
  std::string text(const ZipEntry& entry);

 private:
  ZipEntry read_entry();
  [[noreturn]] void fail_at(const std::string& entry, const std::string& what) const;
  std::vector<std::byte> unpacked(const ZipEntry& entry);

  MappedTensors& file_;
  std::unique_ptr<void, int (*)(void*)> archive_;  // minizip's
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
  std::unordered_map<std::size_t, StoredBytes> taken_;  // by place in entries_
  std::size_t unpacked_bytes_ = 0;
};

inline constexpr std::size_t kMostUnpackedBytes = std::size_t{256} << 20;

}  // namespace moescope
