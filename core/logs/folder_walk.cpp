#include "core/logs/folder_walk.h"

#include <algorithm>
#include <system_error>

namespace moescope {

namespace {

namespace fs = std::filesystem;

// True if `path` is `folder` or lies in it; both must be canonical.
bool is_in(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

class FolderWalk {
 public:
  FolderWalk(const fs::path& folder, int deepest, const std::function<bool(const fs::path&)>& take)
      : deepest_(deepest), take_(take) {
    std::error_code none;
    entered_.push_back(fs::canonical(folder, none));
  }
  bool walk(const fs::path& folder, int depth) {
    std::error_code error, none;
    for (fs::directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
         !error && entry != end; entry.increment(error)) {
      const fs::file_status status = entry->status(none);
      const bool enters =
          fs::is_directory(status) && depth < deepest_ && (!entry->is_symlink(none) || enters_link(entry->path()));
      if (enters && !walk(entry->path(), depth + 1)) return false;
      if (fs::is_regular_file(status) && !take_(entry->path())) return false;
    }
    return true;
  }

 private:
  // Returns false if the walk reaches the files without the link, or if the link leads back.
  bool enters_link(const fs::path& link) {
    std::error_code error;
    const fs::path target = fs::canonical(link, error);
    if (error || std::ranges::any_of(entered_, [&](const fs::path& entered) {
          return is_in(target, entered) || is_in(entered, target);
        }))
      return false;
    entered_.push_back(target);
    return true;
  }
  int deepest_;
  const std::function<bool(const fs::path&)>& take_;
  std::vector<fs::path> entered_;  // the folder and the targets of followed links
};

}  // namespace

void each_file_below(const fs::path& folder, int deepest, const std::function<bool(const fs::path&)>& take) {
  FolderWalk(folder, deepest, take).walk(folder, 0);
}

std::vector<fs::path> files_in(const fs::path& folder, bool (*is_wanted)(std::string_view)) {
  std::vector<fs::path> files;
  each_file_below(folder, 0, [&](const fs::path& file) {
    if (is_wanted(file.filename().string())) files.push_back(file);
    return true;
  });
  std::ranges::sort(files);
  return files;
}

}  // namespace moescope
