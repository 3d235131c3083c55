#include "app/cli/growing_runs.h"

#include <filesystem>
#include <stdexcept>

#include "core/logs/file_follower.h"
#include "core/logs/file_kind.h"
#include "core/logs/runs_in_folder.h"
#include "core/training/engine/lock_step.h"

namespace moescope {

GrowingRuns::GrowingRuns(const std::string& path) {
  const bool there =
      std::filesystem::is_directory(path) || (std::filesystem::exists(path) && std::filesystem::file_size(path) > 0);
  const FileKind kind = there ? file_kind(path) : FileKind::training_log;
  if (kind == FileKind::recording)
    recording_ = open_runs({path}, ImportOptions{}, kMaxRuns);
  else if (holds_runs(kind))
    log_ = follow_file(path, 0, kMaxRuns);
  else
    throw std::runtime_error(no_runs_in(path, kind));
}

std::vector<std::string> GrowingRuns::remarks() const {
  return log_ ? log_->remarks() : recording_.remarks;
}

std::vector<HistoryPtr> GrowingRuns::read() {
  if (log_) {
    const auto histories = log_->histories();
    return {histories.begin(), histories.end()};
  }
  for (const auto& more : recording_.more) more();
  return {recording_.histories.begin(), recording_.histories.end()};
}

}  // namespace moescope
