// Detects a change of a file, or of a folder of files, without reading it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace moescope {

struct FileStamp {
  std::uintmax_t bytes = 0;
  std::int64_t files = 0;
  std::filesystem::file_time_type newest = std::filesystem::file_time_type::min();
  bool operator==(const FileStamp&) const = default;
};

// Returns one stamp for all files in a folder. Includes SQLite's write-ahead log, since a database grows there first.
// Ignores what cannot be read.
FileStamp stamp_of(const std::string& path);

}  // namespace moescope
