#include "core/files/tensors/zip_archive.h"

#include <fmt/core.h>
#include <minizip/unzip.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/files/text/text_escape.h"

namespace moescope {
namespace {

constexpr std::size_t kMaxEntries = 1'000'000;
constexpr std::size_t kLongestEntryName = 4096;
constexpr std::size_t kMaxCompressionRatio = 1032;  // largest compression ratio of deflate
constexpr uLong kEncrypted = 1;                     // bit in the flags of an entry
constexpr std::size_t kUnpackedAtOnce = std::size_t{1} << 20;

}  // namespace

ZipArchive::ZipArchive(MappedTensors& file) : file_(file), archive_(::unzOpen64(file.path.c_str()), ::unzClose) {
  if (!archive_) file.fail("has no directory of a zip archive (is it truncated?)");
  int more = ::unzGoToFirstFile(archive_.get());
  for (; more == UNZ_OK; more = ::unzGoToNextFile(archive_.get())) {
    if (entries_.size() == kMaxEntries) file.fail(fmt::format("has more than {} zip entries", kMaxEntries));
    entries_.push_back(read_entry());
    file.keep(sizeof(ZipEntry) + entries_.back().name.size());
  }
  if (more != UNZ_END_OF_LIST_OF_FILE) file.fail("its zip directory is damaged (is it truncated?)");
  by_name_.reserve(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (!by_name_.emplace(entries_[i].name, i).second) fail_at(entries_[i].name, "is there twice; allowed: once");
}

void ZipArchive::fail_at(const std::string& entry, const std::string& what) const {
  file_.fail("zip entry '" + printable(entry) + "' " + what);
}

ZipEntry ZipArchive::read_entry() {
  unz_file_info64 info{};
  std::array<char, kLongestEntryName + 1> name{};
  if (::unzGetCurrentFileInfo64(archive_.get(), &info, name.data(), kLongestEntryName, nullptr, 0, nullptr, 0) !=
      UNZ_OK)
    file_.fail("its zip directory is damaged (is it truncated?)");
  if (info.size_filename > kLongestEntryName) file_.fail("has a zip entry whose name is longer than 4096 bytes");
  ZipEntry entry{std::string(name.data(), info.size_filename), static_cast<std::size_t>(info.uncompressed_size), 0,
                 info.compression_method == Z_DEFLATED, static_cast<std::uint32_t>(info.crc)};
  if (info.flag & kEncrypted) fail_at(entry.name, "is encrypted; allowed: not encrypted");
  if (info.compression_method != 0 && !entry.deflated)
    fail_at(entry.name, fmt::format("is compressed by method {}; allowed: deflate", info.compression_method));
  unz64_file_pos place{};
  ::unzGetFilePos64(archive_.get(), &place);
  entry.in_directory = place.pos_in_zip_directory;
  int method = 0, level = 0;
  if (::unzOpenCurrentFile2(archive_.get(), &method, &level, 1) != UNZ_OK)
    fail_at(entry.name, "is not what the directory says (is the file damaged?)");
  entry.first = ::unzGetCurrentFileZStreamPos64(archive_.get());
  ::unzCloseCurrentFile(archive_.get());
  const std::size_t held = info.compressed_size;
  if (entry.first > file_.bytes || held > file_.bytes - entry.first || (!entry.deflated && held != entry.bytes))
    fail_at(entry.name, "lies outside the file (is it truncated?)");
  if (entry.deflated && entry.bytes / kMaxCompressionRatio > held)
    fail_at(entry.name, "claims more bytes than it can hold");
  return entry;
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

std::optional<StoredBytes> ZipArchive::stored(const ZipEntry& entry) {
  const std::size_t place = &entry - entries_.data();
  if (const auto found = read_entries_.find(place); found != read_entries_.end()) return found->second;
  StoredBytes stored;
  if (entry.deflated) {
    if (entry.bytes > kMaxUnpackedBytes - unpacked_bytes_) return std::nullopt;
    unpacked_bytes_ += entry.bytes;
    stored.bytes = file_.unpacked.emplace_back(unpacked(entry));
  } else {
    stored.bytes = {file_.data + entry.first, entry.bytes};
    // torch.serialization.set_crc32_options(False) writes 0 in place of the checksum.
    if (entry.crc32 != 0)
      stored.checksum = std::make_shared<PartChecksum>(file_.path + ": zip entry '" + printable(entry.name) + "'",
                                                       stored.bytes, entry.crc32);
  }
  return read_entries_.emplace(place, std::move(stored)).first->second;
}

std::vector<std::byte> ZipArchive::unpacked(const ZipEntry& entry) {
  const unz64_file_pos place{entry.in_directory, static_cast<ZPOS64_T>(&entry - entries_.data())};
  if (::unzGoToFilePos64(archive_.get(), &place) != UNZ_OK || ::unzOpenCurrentFile(archive_.get()) != UNZ_OK)
    fail_at(entry.name, "cannot be opened again");
  std::vector<std::byte> bytes(entry.bytes);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto part = static_cast<unsigned>(std::min(kUnpackedAtOnce, bytes.size() - done));
    const int read = ::unzReadCurrentFile(archive_.get(), bytes.data() + done, part);
    if (read <= 0) break;
    done += read;
  }
  const bool right = ::unzCloseCurrentFile(archive_.get()) == UNZ_OK;
  if (done < bytes.size() || !right) fail_at(entry.name, "is damaged: it does not unpack, or its checksum is wrong");
  return bytes;
}

std::string ZipArchive::text(const ZipEntry& entry) {
  const auto found = stored(entry);
  if (!found) fail_at(entry.name, fmt::format("takes more than {} MiB unpacked", kMaxUnpackedBytes >> 20));
  if (found->checksum) found->checksum->require();
  std::string text(found->bytes.size(), '\0');
  if (!copy_mapped(found->bytes.data(), reinterpret_cast<std::byte*>(text.data()), text.size()))
    file_.fail("was truncated while it was opened");
  return text;
}

}  // namespace moescope
