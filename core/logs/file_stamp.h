// Detects a change of a file, or of a folder of files, and the end of its writer, without reading it.
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

// Returns the stamp of a file, or one stamp for all files below a folder. Includes SQLite's write-ahead log, since a
// database grows there first. Ignores files that cannot be read.
FileStamp stamp_of(const std::string& path);

// True if no program has the file open for writing. False if that is not known, as for a file on another machine or of
// another user.
bool is_closed_by_writers(const std::string& path);

}  // namespace moescope
