#include "core/logs/open_runs.h"

#include <fmt/core.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "core/logs/file_kind.h"
#include "core/logs/runs_in_folder.h"
#include "core/logs/standard_input.h"
#include "core/recording/recording.h"

namespace moescope {

namespace {

void require_fewer_than(std::size_t most_runs, std::size_t runs, const std::string& path) {
  if (runs > most_runs)
    refuse(path, fmt::format("{} runs together; at most {} can be open side by side", runs, most_runs));
}

// Returns nullptr if cancelled.
std::shared_ptr<RecordingReader> recording_at(const std::string& path, const ImportOptions& options) {
  bool cancelled = false;
  try {
    return std::make_shared<RecordingReader>(path, [&] {
      cancelled = cancelled || (options.progress && !options.progress(0));
      return !cancelled;
    });
  } catch (const std::runtime_error&) {
    if (!cancelled) throw;
    return nullptr;
  }
}

Imported open_recording(const std::string& path, const ImportOptions& options, std::size_t most_runs,
                        OpenedRuns& opened) {
  const auto reader = recording_at(path, options);
  if (!reader) return {};
  const auto& runs = reader->runs();
  if (runs.empty())
    throw std::runtime_error(reader->missing().empty() ? path + ": the recording holds no run" : reader->missing());
  require_fewer_than(most_runs, opened.histories.size() + runs.size(), path);
  Imported imported;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto progress = [&](double share) {
      return !options.progress || options.progress((i + share) / runs.size());
    };
    const bool glance = options.glance && reader->is_large(runs[i].run);
    const int as_run = options.run + to_int(i);
    auto history = reader->load(runs[i].run, progress, options.array_budget_bytes, as_run, glance);
    imported.glanced |= glance;
    if (!history) return {};
    imported.runs.push_back(std::move(history));
  }
  if (!reader->missing().empty()) {
    opened.missing.push_back(reader->missing());
    for (const auto& run : imported.runs)
      run->append(Marker{run->info().run, std::max<std::int64_t>(0, run->steps().last), "event", reader->missing()});
  }
  opened.more.push_back([reader] { return reader->load_new(); });
  return imported;
}

Imported import_file(const std::string& path, const ImportOptions& options, std::size_t most_runs, OpenedRuns& opened) {
  const FileKind kind = options.table_header.empty() ? file_kind(path, options) : FileKind::load_table;
  if (kind == FileKind::recording) return open_recording(path, options, most_runs, opened);
  if (!holds_runs(kind)) throw std::runtime_error(no_runs_in(path, kind));
  return import_log(path, kind, options);
}

Imported import_within_memory(const std::string& path, const ImportOptions& options, std::size_t most_runs,
                              OpenedRuns& opened) try {
  return import_file(path, options, most_runs, opened);
} catch (const std::bad_alloc&) {
  refuse(path, "needs more memory than there is");
}

}  // namespace

void StatedLog::put_into(ImportOptions& options) const {
  if (!rules.empty()) options.rules.push_back(rules);
  for (const auto number : {&RoutedShape::layers, &RoutedShape::top_k, &RoutedShape::experts})
    if (shape.*number > 0) options.routed.*number = shape.*number;
}

OpenedRuns open_runs(const std::vector<std::string>& paths, const ImportOptions& options, std::size_t most_runs,
                     const StatedLogs& stated) {
  OpenedRuns opened;
  std::shared_ptr<const RoutedRows> routes_of_a;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    ImportOptions file_options = options;
    if (const auto log = stated.find(paths[i]); log != stated.end()) log->second.put_into(file_options);
    file_options.routes = routes_of_a;
    file_options.run = options.run + to_int(opened.histories.size());
    file_options.most_runs = most_runs - opened.histories.size();
    if (options.progress)
      file_options.progress = [&, i](double share) { return options.progress((i + share) / paths.size()); };
    Imported imported = import_within_memory(paths[i], file_options, most_runs, opened);
    if (imported.runs.empty()) return {};
    if (i == 0) routes_of_a = std::move(imported.routes);
    opened.glanced |= imported.glanced;
    for (const std::string& remark : imported.remarks)
      opened.remarks.push_back(named_standard_input(paths[i] + ": " + remark));
    if (!imported.account.path.empty()) opened.accounts.push_back(std::move(imported.account));
    if (imported.bad.count() > 0) {
      for (const auto& run : imported.runs)
        append_marker(*run, options, {run->info().run, run->steps().last, "event", imported.bad.summary()});
      opened.skipped.push_back({named_standard_input(paths[i]), std::move(imported.bad)});
    }
    for (auto& run : imported.runs) opened.histories.push_back(std::move(run));
    require_fewer_than(most_runs, opened.histories.size(), paths[i]);
  }
  return opened;
}

}  // namespace moescope
