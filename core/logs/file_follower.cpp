#include "core/logs/file_follower.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/logs/file_kind.h"
#include "core/logs/file_stamp.h"
#include "core/logs/log_follower.h"
#include "core/logs/open_runs.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kLeastPauses = 9;  // least pause after a reading, as a multiple of its duration

}  // namespace

struct FileFollower::State {
  std::string path;
  ImportOptions options;
  std::size_t most_runs = 1;

  mutable std::mutex mutex;  // protects the members that other threads read
  std::vector<std::shared_ptr<History>> histories;
  BadLines bad;
  std::vector<std::string> remarks;
  std::string problem;

  // Members below are used by the follower's thread only.
  std::optional<FileStamp> read;
  Clock::time_point next{};

  void check_file();
  void read_file();
};

void FileFollower::State::check_file() {
  if (Clock::now() < next) return;
  const FileStamp now = stamp_of(path);
  if (read == now) return;
  read = now;
  const auto start = Clock::now();
  read_file();
  next = Clock::now() + kLeastPauses * (Clock::now() - start);
}

void FileFollower::State::read_file() {
  OpenedRuns opened;
  std::string why;
  try {
    opened = open_runs({path}, options, most_runs);
  } catch (const std::exception& error) {
    why = error.what();
    if (why.starts_with(path + ": ")) why.erase(0, path.size() + 2);
  }
  const std::lock_guard lock(mutex);
  problem = why;
  if (opened.histories.empty()) return;
  histories = std::move(opened.histories);
  remarks = std::move(opened.remarks);
  bad = opened.skipped.empty() ? BadLines() : std::move(opened.skipped.front().bad);
}

FileFollower::FileFollower(std::string path, int run, std::size_t most_runs, std::vector<std::string> only)
    : state_(std::make_unique<State>()) {
  state_->path = std::move(path);
  state_->most_runs = most_runs;
  state_->options.run = run;
  state_->options.only = std::move(only);
  state_->options.growing = true;
  thread_ = std::jthread([state = state_.get()](const std::stop_token& stop) {
    state->options.progress = [&stop](double) { return !stop.stop_requested(); };
    look_every(kEvery, stop, [state] { state->check_file(); });
  });
}

FileFollower::~FileFollower() = default;

const std::string& FileFollower::path() const {
  return state_->path;
}
std::vector<std::shared_ptr<History>> FileFollower::histories() const {
  const std::lock_guard lock(state_->mutex);
  return state_->histories;
}
BadLines FileFollower::bad() const {
  const std::lock_guard lock(state_->mutex);
  return state_->bad;
}
std::vector<std::string> FileFollower::remarks() const {
  const std::lock_guard lock(state_->mutex);
  return state_->remarks;
}
std::string FileFollower::amount() const {
  std::int64_t newest = -1;
  for (const auto& history : histories()) newest = std::max(newest, history->steps().last);
  return newest < 0 ? "no step yet" : "up to step " + std::to_string(newest);
}
std::string FileFollower::problem() const {
  const std::lock_guard lock(state_->mutex);
  return state_->problem;
}

std::unique_ptr<Follower> follow_file(const std::string& path, int run, std::size_t most_runs,
                                      std::vector<std::string> only) {
  FileKind kind = FileKind::training_log;
  try {
    if (fs::is_directory(path) || fs::file_size(path) > 0) kind = file_kind(path);
  } catch (const std::runtime_error&) {  // the file does not exist yet or cannot be read; the follower reports this
  }
  if (kind == FileKind::training_log || kind == FileKind::text_log || !holds_runs(kind))
    return std::make_unique<LogFollower>(path, run);
  return std::make_unique<FileFollower>(path, run, most_runs, std::move(only));
}

}  // namespace moescope
