// The entries of a zip archive, read by minizip: stored or compressed by deflate, with or without zip64. Bytes of
// stored entries stay in the mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/files/tensors/tensor_file.h"

namespace moescope {

struct ZipEntry {
  std::string name;
  std::size_t bytes = 0;  // uncompressed
  std::size_t first = 0;  // position in the file, of stored entries
  bool deflated = false;
  std::uint32_t crc32 = 0;
  std::size_t in_directory = 0;  // position in minizip's directory
};

// The contents of an entry.
struct StoredBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const PartChecksum> checksum;  // nullptr if the entry has none or it has been compared
};

class ZipArchive {
 public:
  // Throws std::runtime_error "PATH: ..." if the file is no archive, damaged or encrypted, or two entries have one
  // name.
  explicit ZipArchive(MappedTensors& file);
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;  // nullptr if absent

  // Returns the contents of an entry. Compressed entries are unpacked into memory that the constructor's `file` owns.
  // Returns nullopt if all unpacked entries together would take more than kMaxUnpackedBytes. Throws std::runtime_error
  // "PATH: ..." if an entry is damaged.
  std::optional<StoredBytes> stored(const ZipEntry& entry);
  // Returns a copy of an entry's contents, which are compared with the checksum. Throws as stored() does.
  std::string text(const ZipEntry& entry);

 private:
  ZipEntry read_entry();
  [[noreturn]] void fail_at(const std::string& entry, const std::string& what) const;
  std::vector<std::byte> unpacked(const ZipEntry& entry);

  MappedTensors& file_;
  std::unique_ptr<void, int (*)(void*)> archive_;  // minizip's
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
  std::unordered_map<std::size_t, StoredBytes> read_entries_;  // key: index in entries_
  std::size_t unpacked_bytes_ = 0;
};

inline constexpr std::size_t kMaxUnpackedBytes = std::size_t{256} << 20;

}  // namespace moescope
