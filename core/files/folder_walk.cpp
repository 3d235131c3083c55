#include "core/files/folder_walk.h"

#include <algorithm>
#include <system_error>

#include "core/files/unreadable.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

// True if `path` is `folder` or lies in it; both must be canonical.
bool is_in(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

// Returns the folder that links in `folder` may reach.
fs::path reach_of(const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error), above = real.parent_path();
  return above.filename() == "snapshots" && fs::is_directory(above.parent_path() / "blobs", error) ? above.parent_path()
                                                                                                   : real;
}

bool reaches(const fs::path& reach, const fs::path& entry) {
  std::error_code error;
  const fs::path target = fs::canonical(entry, error);
  return error || is_in(target, reach);
}

class FolderWalk {
 public:
  using Take = std::function<bool(const fs::path&)>;

  FolderWalk(const fs::path& folder, int deepest, const Take& take, const Take& leave)
      : reach_(reach_of(folder)), deepest_(deepest), take_(take), leave_(leave) {
    std::error_code none;
    entered_.push_back(fs::canonical(folder, none));
  }
  bool walk(const fs::path& folder, int depth) {
    std::error_code error, none;
    for (fs::directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
         !error && entry != end; entry.increment(error)) {
      const bool link = entry->is_symlink(none);
      if (link && !reaches(reach_, entry->path())) {
        if (!leave_(entry->path())) return false;
        continue;
      }
      const fs::file_status status = entry->status(none);
      const bool enters = fs::is_directory(status) && depth < deepest_ && (!link || enters_link(entry->path()));
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
  fs::path reach_;
  int deepest_;
  const Take &take_, &leave_;
  std::vector<fs::path> entered_;  // the folder and the targets of followed links
};

bool goes_on(const fs::path&) {
  return true;
}

}  // namespace

bool visit_files_below(const fs::path& folder, int deepest, const std::function<bool(const fs::path&)>& take) {
  const FolderWalk::Take leave = goes_on;
  return FolderWalk(folder, deepest, take, leave).walk(folder, 0);
}

std::vector<fs::path> files_in(const fs::path& folder, bool (*is_wanted)(std::string_view)) {
  std::vector<fs::path> files;
  visit_files_below(folder, 0, [&](const fs::path& file) {
    if (is_wanted(file.filename().string())) files.push_back(file);
    return true;
  });
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> names_in(const fs::path& folder) {
  constexpr std::size_t kMaxNames = 100'000;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end && names.size() < kMaxNames;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::vector<fs::path> links_out_of(const fs::path& folder, int deepest) {
  std::vector<fs::path> links;
  const FolderWalk::Take take = goes_on, leave = [&](const fs::path& link) {
    links.push_back(link);
    return true;
  };
  FolderWalk(folder, deepest, take, leave).walk(folder, 0);
  std::ranges::sort(links);
  return links;
}

fs::path plain_path(const fs::path& path) {
  const fs::path plain = fs::absolute(path.empty() ? "." : path).lexically_normal();
  return plain.has_filename() ? plain : plain.parent_path();
}

bool leads_out_of(const fs::path& folder, const fs::path& entry) {
  return !reaches(reach_of(folder), entry);
}

void require_inside(const fs::path& folder, const fs::path& file) {
  if (!leads_out_of(folder, file)) return;
  std::error_code error;
  refuse(file.string(), "is a link to " + fs::canonical(file, error).string() +
                            ", out of the folder; links are followed within " + folder.string() +
                            " only: put a copy of the file in its place");
}

}  // namespace moescope
