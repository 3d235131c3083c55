#include "core/files/whole_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/files/folder_walk.h"
#include "core/files/unreadable.h"
#include "core/files/whole_file.h"
#include "core/numerics/operating_system.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

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
