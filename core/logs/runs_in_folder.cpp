#include "core/logs/runs_in_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "core/files/folder_walk.h"
#include "core/logs/events/import_events.h"
#include "core/logs/events/import_mlflow.h"
#include "core/logs/lines/import_te_statistics.h"
#include "core/logs/routing/import_trace.h"
#include "core/logs/standard_input.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamedRuns = 10;  // number of runs in a message
constexpr int kFolderDepth = 3;         // for PROJECT/wandb/offline-run-.../run-ID.wandb

bool named_like_run(const fs::path& path) {
  constexpr std::array<std::string_view, 8> kSuffixes = {".moescope", ".jsonl", ".ndjson", ".wandb",
                                                         ".csv",      ".tsv",   ".log",    ".out"};
  if (path.filename() == "trainer_state.json") return true;
  return std::ranges::find(kSuffixes, path.extension().string()) != kSuffixes.end();
}

std::optional<RunFile> look_at(const fs::path& path) {
  try {
    const FileKind kind = file_kind(path.string());
    if (holds_runs(kind)) return RunFile{path.string(), kind, fs::file_size(path), fs::last_write_time(path)};
  } catch (const std::runtime_error&) {  // a file of another kind, or an unreadable one
  }
  return std::nullopt;
}

// Adds a part to its run in the list, which has the path of the newest part.
template <class IsSameRun>
void add_part(const RunFile& part, IsSameRun is_same, std::vector<RunFile>& runs) {
  const auto found = std::ranges::find_if(runs, is_same);
  if (found == runs.end()) return runs.push_back(part);
  found->bytes += part.bytes;
  if (part.last_change <= found->last_change) return;
  found->path = part.path;
  found->last_change = part.last_change;
}

// Adds a file to the run of its folder: all files of this kind in a folder are one run.
void add_part(const std::string& folder, const fs::path& path, FileKind kind, std::vector<RunFile>& runs) {
  std::error_code error;
  const RunFile part{folder, kind, fs::file_size(path, error), fs::last_write_time(path, error)};
  if (!error)
    add_part(
        part, [&](const RunFile& run) { return run.path == folder && run.kind == kind; }, runs);
}

// Adds a file of a W&B run. A resumed run has several files, each in its own folder.
void add_wandb_part(const fs::path& path, std::vector<RunFile>& runs) {
  const auto is_same = [&](const RunFile& run) {
    const fs::path file = run.path;
    return run.kind == FileKind::wandb_run && file.filename() == path.filename() &&
           file.parent_path().parent_path() == path.parent_path().parent_path();
  };
  if (const auto part = look_at(path)) add_part(*part, is_same, runs);
}

void add_mlflow_run(const fs::path& folder, std::vector<RunFile>& runs) {
  if (leads_out_of(folder, folder / "metrics")) return;
  each_file_below(folder / "metrics", kDeepestMlflowKey, [&](const fs::path& file) {
    add_part(folder.string(), file, FileKind::mlflow_run, runs);
    return true;
  });
}

// Checks the folder, because a folder of messages beside the statistics has files with the same names.
void add_te_statistics(const fs::path& path, std::vector<RunFile>& runs) {
  if (is_te_statistics_folder(path.parent_path()))
    add_part(path.parent_path().string(), path, FileKind::te_statistics, runs);
}

}  // namespace

std::vector<RunFile> runs_in_folder(const std::string& folder) {
  std::vector<RunFile> runs;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, error);
       !error && entry != fs::recursive_directory_iterator() && runs.size() < kMaxRunFiles; entry.increment(error)) {
    if (entry.depth() >= kFolderDepth) entry.disable_recursion_pending();
    std::error_code gone;
    const fs::path& path = entry->path();
    if (entry->is_directory(gone) && is_mlflow_run(path)) {
      add_mlflow_run(path, runs);
      entry.disable_recursion_pending();
    }
    if (!entry->is_regular_file(gone) || (entry->is_symlink(gone) && leads_out_of(folder, path))) continue;
    if (is_event_file(path))
      add_part(path.parent_path().string(), path, FileKind::event_file, runs);
    else if (is_trace_name(path.filename().string()))
      add_part(path.parent_path().string(), path, FileKind::router_trace, runs);
    else if (is_te_statistics_name(path.filename().string()))
      add_te_statistics(path, runs);
    else if (path.extension() == ".wandb")
      add_wandb_part(path, runs);
    else if (named_like_run(path))
      if (const auto run = look_at(path)) runs.push_back(*run);
  }
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
