#include "core/checkpoints/checkpoint_folder.h"

#include <algorithm>
#include <filesystem>
#include <ranges>

#include "core/files/input_file.h"
#include "core/files/tensors/open_tensors.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/files/unreadable.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr int kLevels = 3;
constexpr std::size_t kMaxEntries = 100'000;  // of a folder
constexpr std::uint64_t kLongestRef = 1000;

std::vector<fs::path> sorted_folders(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  std::size_t entries = 0;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && ++entries < kMaxEntries;
       it.increment(error))
    if (std::error_code ignored; fs::is_directory(it->path(), ignored)) folders.push_back(it->path());
  std::ranges::sort(folders);
  return folders;
}

void add_below(const fs::path& folder, int levels, std::size_t max_folders, std::vector<std::string>& found) {
  for (const fs::path& below : sorted_folders(folder)) {
    std::error_code error;
    if (found.size() >= max_folders) return;
    if (is_checkpoint(below.string()))
      found.push_back(below.string());
    else if (levels > 1 && !fs::is_symlink(below, error))
      add_below(below, levels - 1, max_folders, found);
  }
}

// Returns the snapshot of a cache that refs/main names; "" if there is none.
std::string main_snapshot(const fs::path& cache) {
  const fs::path ref = cache / "refs" / "main";
  std::error_code error;
  if (!fs::is_regular_file(ref, error)) return {};
  std::string commit = read_file(ref.string(), kLongestRef, "name of a commit");
  commit.erase(commit.find_last_not_of(" \n\r") + 1);
  if (commit.empty() || commit.find('/') != std::string::npos || commit.starts_with('.')) return {};
  const std::string snapshot = (cache / "snapshots" / commit).string();
  return is_checkpoint(snapshot) ? snapshot : std::string();
}

void require_read_form(const std::string& path) {
  if (const std::string form = unread_form(path); !form.empty()) refuse(path, form);
}

}  // namespace

bool is_checkpoint(const std::string& folder) {
  std::error_code error;
  if (!fs::is_regular_file(fs::path(folder) / "config.json", error)) return false;
  std::size_t entries = 0;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && ++entries < kMaxEntries;
       it.increment(error))
    if (it->path().extension() == ".safetensors") return true;
  return false;
}

std::vector<std::string> checkpoints_below(const std::string& folder, std::size_t max_folders) {
  std::vector<std::string> found;
  add_below(folder, kLevels, max_folders, found);
  return found;
}

std::string checkpoint_folder(const std::string& path) {
  const fs::path given_path(path);
  std::error_code error;
  if (given_path.filename() == "config.json" && fs::is_regular_file(given_path, error))
    return given_path.has_parent_path() ? given_path.parent_path().string() : ".";
  if (is_checkpoint(path) || !fs::exists(given_path, error)) return path;
  const bool may_hold_models = fs::is_directory(given_path, error) && !fs::exists(given_path / "config.json", error) &&
                               !fs::exists(given_path / "adapter_config.json", error);
  if (!may_hold_models) {
    require_read_form(path);
    return path;
  }
  if (const std::string snapshot = main_snapshot(given_path); !snapshot.empty()) return snapshot;
  constexpr std::size_t kNamedFolders = 5;
  const std::vector<std::string> found = checkpoints_below(path, kNamedFolders + 1);
  if (found.size() == 1) return found.front();
  if (found.empty()) require_read_form(path);
  if (found.empty()) refuse(path, "holds no config.json with .safetensors, nor do its subfolders");
  const std::string names = joined(found | std::views::take(kNamedFolders), ", ", printable);
  refuse(path,
         "holds several models: " + names + (found.size() > kNamedFolders ? " and more" : "") + "; name one of them");
}

}  // namespace moescope
