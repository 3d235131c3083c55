// Files on the way to the disk: their temporary names, and syncing.
#pragma once

#include <string>
#include <string_view>

namespace moescope {

// The temporary names that WholeFile gives where the file system has no files without a name.
inline constexpr const char *kTemporaryBegin = ".moescope-", *kTemporaryEnd = ".tmp";
inline bool is_temporary_name(std::string_view name) {
  return name.starts_with(kTemporaryBegin) && name.ends_with(kTemporaryEnd);
}

// Syncs the bytes of a file, or the names in a folder. Throws std::runtime_error "PATH: why".
void sync_to_disk(const std::string& path);

}  // namespace moescope
