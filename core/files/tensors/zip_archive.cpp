#include "core/files/tensors/zip_archive.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

#include "core/io/text_escape.h"

namespace moescope {
namespace {

constexpr std::uint32_t kEndOfDirectory = 0x06054b50, kEndOfDirectory64 = 0x06064b50, kLocator64 = 0x07064b50,
                        kDirectoryEntry = 0x02014b50, kLocalEntry = 0x04034b50;
constexpr std::size_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kDirectoryEntryBytes = 46,
                      kLocalEntryBytes = 30, kLongestComment = 65535;
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;  // the number stands in the zip64 field
constexpr std::uint16_t kField64 = 1;
constexpr std::size_t kMostEntries = 1'000'000;

std::uint64_t number(std::string_view bytes, std::size_t at, int size) {
  std::uint64_t value = 0;
  for (int i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
  return value;
}
std::uint16_t u16(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint16_t>(number(bytes, at, 2));
}
std::uint32_t u32(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint32_t>(number(bytes, at, 4));
}
std::uint64_t u64(std::string_view bytes, std::size_t at) {
  return number(bytes, at, 8);
}

struct Directory {
  std::uint64_t first = 0, bytes = 0;
};

Directory directory_of(const MappedTensors& file) {
  const std::size_t looked_at = std::min(file.bytes, kEndBytes + kLongestComment);
  const std::string end = file.copied(file.bytes - looked_at, looked_at);
  std::size_t at = end.size() < kEndBytes ? std::string::npos : end.size() - kEndBytes;
  while (at != std::string::npos && u32(end, at) != kEndOfDirectory) at = at == 0 ? std::string::npos : at - 1;
  if (at == std::string::npos) file.fail("has no end of a zip archive (is it truncated?)");
  const Directory found{u32(end, at + 16), u32(end, at + 12)};
  if (found.first != kIn64 && found.bytes != kIn64 && u16(end, at + 10) != 0xFFFF) return found;
  const std::size_t end_at = file.bytes - looked_at + at;
  if (end_at < kLocatorBytes) file.fail("has no zip64 directory");
  const std::string locator = file.copied(end_at - kLocatorBytes, kLocatorBytes);
  if (u32(locator, 0) != kLocator64) file.fail("has no zip64 directory");
  const std::string end64 = file.copied(u64(locator, 8), kEnd64Bytes);
  if (u32(end64, 0) != kEndOfDirectory64) file.fail("has no zip64 directory where its locator says");
  return {u64(end64, 48), u64(end64, 40)};
}

// Takes the next number of the zip64 field for those that stand there.
void take_64(std::string_view extra, std::initializer_list<std::uint64_t*> numbers) {
  for (std::size_t at = 0; at + 4 <= extra.size(); at += 4 + u16(extra, at + 2)) {
    const std::size_t size = u16(extra, at + 2);
    if (u16(extra, at) != kField64 || at + 4 + size > extra.size()) continue;
    std::size_t next = at + 4;
    for (std::uint64_t* value : numbers) {
      if (*value != kIn64 || next + 8 > at + 4 + size) continue;
      *value = u64(extra, next);
      next += 8;
    }
    return;
  }
}

}  // namespace

std::vector<ZipEntry> zip_entries(const MappedTensors& file) {
  const Directory where = directory_of(file);
  if (where.first > file.bytes || where.bytes > file.bytes - where.first)
    file.fail("its zip directory lies outside the file (is it truncated?)");
  const std::string directory = file.copied(where.first, where.bytes);
  std::vector<ZipEntry> entries;
  for (std::size_t at = 0; at + kDirectoryEntryBytes <= directory.size() && u32(directory, at) == kDirectoryEntry;) {
    const std::size_t name = u16(directory, at + 28), extra = u16(directory, at + 30),
                      comment = u16(directory, at + 32);
    const std::size_t whole = kDirectoryEntryBytes + name + extra + comment;
    if (whole > directory.size() - at) file.fail("its zip directory is damaged");
    if (entries.size() == kMostEntries) file.fail("has more than " + std::to_string(kMostEntries) + " zip entries");
    ZipEntry entry{directory.substr(at + kDirectoryEntryBytes, name)};
    std::uint64_t stored = u32(directory, at + 20), bytes = u32(directory, at + 24), local = u32(directory, at + 42);
    take_64(std::string_view(directory).substr(at + kDirectoryEntryBytes + name, extra), {&bytes, &stored, &local});
    const std::string shown = "'" + printable(entry.name) + "'";
    if (u16(directory, at + 10) != 0) file.fail("zip entry " + shown + " is compressed; allowed: stored as it is");
    const std::string header = file.copied(local, kLocalEntryBytes);
    if (u32(header, 0) != kLocalEntry) file.fail("zip entry " + shown + " is not where the directory says");
    entry.first = local + kLocalEntryBytes + u16(header, 26) + u16(header, 28);
    entry.bytes = bytes;
    if (stored != bytes || entry.first > file.bytes || entry.bytes > file.bytes - entry.first)
      file.fail("zip entry " + shown + " lies outside the file (is it truncated?)");
    entries.push_back(std::move(entry));
    at += whole;
  }
  return entries;
}

}  // namespace moescope
