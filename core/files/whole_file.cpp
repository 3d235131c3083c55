#include "core/files/whole_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "core/files/folder_walk.h"
#include "core/files/unreadable.h"
#include "core/numerics/operating_system.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBuffer = std::size_t{256} << 10;
constexpr int kTries = 16;

// Returns a path in the folder of `path` with a short name, because the name of `path` may have the maximal length.
std::string temporary_path(const std::string& path) {
  std::random_device random;
  const std::string digits = fmt::format("{:08x}{:08x}{:08x}", random(), random(), random());
  return (fs::path(path).parent_path() / (kTemporaryBegin + digits + kTemporaryEnd)).string();
}

// Makes the new name survive a power cut. Not every file system supports this.
void sync_folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(n);
  }
  return true;
}

std::string output_problem(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (S_ISREG(status.st_mode)) return {};
  if (S_ISDIR(status.st_mode)) return "is a folder, expected a file";
  if (!S_ISLNK(status.st_mode)) return "is a device, a pipe or a socket, expected a file";
  std::error_code error;
  const std::string target = fs::read_symlink(path, error).string();
  return "is a symbolic link to " + target +
         ", and links are not followed; give the path of that file, or remove the link";
}

WholeFile::WholeFile(const std::string& path) : path_(path) {
  if (const std::string problem = output_problem(path); !problem.empty()) refuse(path, problem);
  open();
  struct stat replaced {};
  if (::lstat(path.c_str(), &replaced) == 0) ::fchmod(file_, replaced.st_mode & 0777);
  buffer_.reserve(kBuffer);
}

void WholeFile::open() {
  const std::string folder = fs::path(path_).parent_path().string();
#if MOESCOPE_ON_LINUX  // a file without a name, of which a killed program leaves nothing
  file_ = ::open(folder.empty() ? "." : folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
#endif
  for (int i = 0; i < kTries && file_ < 0; ++i) {
    temporary_ = temporary_path(path_);
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file_ < 0 && errno != EEXIST) break;
  }
  if (file_ < 0) fail();
}

// Gives the file a temporary name first, because only renaming can replace an existing file.
void WholeFile::give_name() {
  const std::string open_file = fmt::format("/proc/self/fd/{}", file_);
  for (int i = 0; i < kTries; ++i) {
    const std::string name = temporary_path(path_);
    if (::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = name;
      return;
    }
    if (errno != EEXIST) break;
  }
  fail();
}

WholeFile::~WholeFile() {
  if (finished_) return;
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void WholeFile::flush() {
  if (!write_all(file_, buffer_)) fail();
  buffer_.clear();
}

void WholeFile::write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > kBuffer) flush();
  if (bytes.size() < kBuffer)
    buffer_.append(bytes);
  else if (!write_all(file_, bytes))
    fail();
}

void WholeFile::finish() {
  flush();
  if (::fsync(file_) != 0) fail();
  if (temporary_.empty()) give_name();
  if (::close(std::exchange(file_, -1)) != 0) fail();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
  finished_ = true;
  sync_folder_of(path_);
}

void WholeFile::fail() const {
  refuse(path_, std::string("cannot be written: ") + std::strerror(errno));
}

void sync_to_disk(const std::string& path) {
  const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  // EINVAL: not supported by this file system.
  const bool done = opened >= 0 && (::fsync(opened) == 0 || errno == EINVAL);
  const int error_number = errno;
  if (opened >= 0) ::close(opened);
  if (!done) refuse(path, std::string("cannot be synced to the disk: ") + std::strerror(error_number));
}

void write_whole_file(const std::string& path, std::string_view bytes) {
  WholeFile file(path);
  file.write(bytes);
  file.finish();
}

int open_growing_file(const std::string& path) {
  struct stat status {};
  const bool link = ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
  const int how = link ? 0 : O_CREAT | O_TRUNC | O_NOFOLLOW;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | how, 0666);
  if (fd < 0 && !link) refuse(path, std::string("cannot be written: ") + std::strerror(errno));
  const bool stream = fd >= 0 && ::fstat(fd, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
  if (!link || stream) return fd;
  if (fd >= 0) ::close(fd);
  refuse(path, output_problem(path));
}

namespace {

[[noreturn]] void cannot_be_written(const std::string& path) {
  refuse(path, std::string("cannot be written: ") + std::strerror(errno));
}

bool is_there(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

// Throws if there is anything else at `path` than a folder of files with own names.
void require_own(const std::string& path, OwnName is_own) {
  if (!is_there(path)) return;
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) {
    const std::string problem = output_problem(path);
    refuse(path, problem.empty() ? "is a file, expected a folder" : problem);
  }
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (is_temporary_name(name) || (is_own(name) && !fs::is_directory(entry.symlink_status()))) continue;
    refuse(path, "holds '" + name + "', which would be lost, because the folder is replaced as a whole; " +
                     "choose another folder, or move that file");
  }
}

void rename_or_throw(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    refuse(to, std::string("cannot be replaced: ") + std::strerror(errno) + "; the new folder is not written");
}

// Gives `to` the permissions of `from`, if there is such a file or folder.
void keep_permissions(const std::string& from, const std::string& to) {
  struct stat status {};
  if (::lstat(from.c_str(), &status) == 0 && !S_ISLNK(status.st_mode)) ::chmod(to.c_str(), status.st_mode & 07777);
}

}  // namespace

std::string whole_folder_at(const std::string& path) {
  const std::string partial = path + ".partial", replaced = path + ".replaced";
  if (is_there(path) || !is_there(replaced)) return path;
  return is_there(partial) ? partial : replaced;  // PATH.replaced is made only after PATH.partial is complete
}

void remove_own_files(const std::string& folder, OwnName is_own) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (is_own(name) || is_temporary_name(name)) fs::remove(entry->path(), ignored);
  }
  fs::remove(folder, error);
}

WholeFolder::WholeFolder(const std::string& path, OwnName is_own)
    : path_(plain_path(path).string()), partial_(path_ + ".partial"), replaced_(path_ + ".replaced"), is_own_(is_own) {
  for (const std::string& folder : {path_, partial_, replaced_}) require_own(folder, is_own_);
  std::error_code error;
  if (fs::equivalent(path_, fs::current_path(error), error))
    refuse(path, "is the current folder, which cannot be replaced; give the name of a folder in it");
  if (const std::string at = whole_folder_at(path_); at != path_) rename_or_throw(at, path_);
  remove_own_files(partial_, is_own_);
  remove_own_files(replaced_, is_own_);
  fs::create_directories(fs::path(path_).parent_path(), error);
  if (::mkdir(partial_.c_str(), 0777) != 0) cannot_be_written(partial_);
}

WholeFolder::~WholeFolder() {
  if (!finished_) remove_own_files(partial_, is_own_);
}

std::string WholeFolder::file(const std::string& name) const {
  return (fs::path(partial_) / name).string();
}

void WholeFolder::finish() {
  for (const auto& entry : fs::directory_iterator(partial_)) {
    keep_permissions((fs::path(path_) / entry.path().filename()).string(), entry.path().string());
    sync_to_disk(entry.path().string());
  }
  keep_permissions(path_, partial_);
  sync_to_disk(partial_);
  swap();
  finished_ = true;
  sync_to_disk(fs::path(path_).parent_path().string());
  remove_own_files(partial_, is_own_);
  remove_own_files(replaced_, is_own_);
}

void WholeFolder::swap() {
  if (!is_there(path_)) return rename_or_throw(partial_, path_);
#if MOESCOPE_ON_LINUX
  if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
    refuse(path_, std::string("cannot be replaced: ") + std::strerror(errno) + "; it is as it was before");
#endif
  rename_or_throw(path_, replaced_);
  rename_or_throw(partial_, path_);
}

}  // namespace moescope
