// By which a change of a file, or of a folder of files, is noticed without reading it.
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

// Of all files in a folder together, and with SQLite's write-ahead log, where a database grows first. What cannot be
// read does not count.
FileStamp stamp_of(const std::string& path);

}  // namespace moescope
