#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "core/logs/followed.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

void take(const fs::path& file, FileStamp& stamp) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) return;
  stamp.bytes += size;
  ++stamp.files;
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

// The kernel grants a lease for reading only on a file that nobody has open for writing. A program that opens the file
// meanwhile waits until the lease is given back, and the kernel sends this process a signal: SIGURG, which is ignored.
bool is_closed_by_writers(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  const bool is_closed = ::fcntl(file, F_SETSIG, SIGURG) == 0 && ::fcntl(file, F_SETLEASE, F_RDLCK) == 0;
  ::close(file);  // gives the lease back
  return is_closed;
}

}  // namespace moescope
