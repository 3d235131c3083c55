#include "core/logs/file_stamp.h"

#include <algorithm>

namespace moescope {

namespace {

namespace fs = std::filesystem;

void take(const fs::path& file, FileStamp& stamp) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) return;
  stamp.bytes += size, ++stamp.files;
  stamp.newest = std::max(stamp.newest, fs::last_write_time(file, error));
}

}  // namespace

FileStamp stamp_of(const std::string& path) {
  FileStamp stamp;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    take(path, stamp);
    take(path + "-wal", stamp);
    return stamp;
  }
  for (fs::recursive_directory_iterator entry(path, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end; entry.increment(error))
    if (entry->is_regular_file(error)) take(entry->path(), stamp);
  return stamp;
}

}  // namespace moescope
