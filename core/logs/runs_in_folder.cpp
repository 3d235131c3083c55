#include "core/logs/runs_in_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/logs/log_readers.h"
#include "core/logs/standard_input.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamedRuns = 10;  // number of runs in a message
constexpr int kFolderDepth = 3;         // for PROJECT/wandb/offline-run-.../run-ID.wandb

bool named_like_run(const fs::path& path) {
  return path.filename() == "trainer_state.json" ||
         is_one_of(suffix_of(path.string()),
                   {".moescope", ".jsonl", ".ndjson", ".wandb", ".csv", ".tsv", ".log", ".out"});
}

std::optional<RunFile> look_at(const fs::path& path) {
  try {
    const FileKind kind = file_kind(path.string());
    if (holds_runs(kind)) return RunFile{path.string(), kind, fs::file_size(path), fs::last_write_time(path)};
  } catch (const std::runtime_error&) {  // a file of another kind, or an unreadable one
  }
  return std::nullopt;
}

// The runs by a text that the files of a run have in common.
using RunsByKey = std::map<std::string, RunFile>;

// Adds a file to its run in the list, which has the path of the newest file.
void add_part(const std::string& key, const RunFile& part, RunsByKey& runs) {
  const auto [run, is_new] = runs.try_emplace(key, part);
  if (is_new) return;
  run->second.bytes += part.bytes;
  if (part.last_change <= run->second.last_change) return;
  run->second.path = part.path;
  run->second.last_change = part.last_change;
}

// Adds a file to the run of its folder: all files of this kind in a folder are one run.
void add_to_folder(const fs::path& folder, const fs::path& path, FileKind kind, RunsByKey& runs) {
  std::error_code error;
  const RunFile part{folder.string(), kind, fs::file_size(path, error), fs::last_write_time(path, error)};
  if (!error) add_part(file_kind_name(kind) + folder.string(), part, runs);
}

void add_mlflow_run(const fs::path& folder, RunsByKey& runs) {
  if (leads_out_of(folder, folder / "metrics")) return;
  visit_files_below(folder / "metrics", kDeepestMlflowKey, [&](const fs::path& file) {
    add_to_folder(folder, file, FileKind::mlflow_run, runs);
    return true;
  });
}

void add_file(const fs::path& path, RunsByKey& runs) {
  const std::string name = path.filename().string();
  const fs::path folder = path.parent_path();
  if (is_event_file(path)) return add_to_folder(folder, path, FileKind::event_file, runs);
  if (is_trace_name(name)) return add_to_folder(folder, path, FileKind::router_trace, runs);
  if (is_te_statistics_name(name)) {  // a folder of messages beside the statistics has files with the same names
    if (is_te_statistics_folder(folder)) add_to_folder(folder, path, FileKind::te_statistics, runs);
    return;
  }
  // A resumed run of W&B has several files of one name, each in its own folder.
  const bool is_wandb = path.extension() == ".wandb";
  if (!is_wandb && !named_like_run(path)) return;
  if (const auto run = look_at(path)) add_part((is_wandb ? folder.parent_path() / name : path).string(), *run, runs);
}

}  // namespace

std::vector<RunFile> runs_in_folder(const std::string& folder) {
  RunsByKey found;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, error);
       !error && entry != fs::recursive_directory_iterator() && found.size() < kMaxRunFiles; entry.increment(error)) {
    if (entry.depth() >= kFolderDepth) entry.disable_recursion_pending();
    std::error_code gone;
    const fs::path& path = entry->path();
    if (entry->is_directory(gone) && is_mlflow_run(path)) {
      add_mlflow_run(path, found);
      entry.disable_recursion_pending();
    }
    if (entry->is_regular_file(gone) && !(entry->is_symlink(gone) && leads_out_of(folder, path))) add_file(path, found);
  }
  std::vector<RunFile> runs;
  for (auto& [key, run] : found) runs.push_back(std::move(run));
  std::ranges::stable_sort(runs, {}, &RunFile::path);
  std::ranges::stable_sort(runs, std::ranges::greater{}, &RunFile::last_change);
  return runs;
}

std::string no_runs_in(const std::string& path, FileKind kind) {
  std::error_code error;
  const std::vector<RunFile> runs = fs::is_directory(path, error) ? runs_in_folder(path) : std::vector<RunFile>();
  if (runs.empty()) return no_log_text(path, kind);
  std::string list;
  for (std::size_t i = 0; i < std::min(runs.size(), kNamedRuns); ++i) list += (i ? ", " : "") + runs[i].path;
  return fmt::format("{}: is a folder of {}{}; open one of them by its name: {}{}", path, runs.size(),
                     runs.size() == 1 ? " run" : " runs", list, runs.size() > kNamedRuns ? ", ..." : "");
}

}  // namespace moescope
