#include "core/logs/file_follower.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "core/logs/file_kind.h"
#include "core/logs/log_follower.h"
#include "core/logs/open_runs.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kLeastPauses = 9;  // least pause after a reading, as a multiple of its duration

}  // namespace

FileFollower::FileFollower(std::string path, int run, std::size_t most_runs, std::vector<std::string> only)
    : Follower(std::move(path)), most_runs_(most_runs) {
  options_.run = run;
  options_.only = std::move(only);
  options_.growing = true;
  thread_ = std::jthread([this](const std::stop_token& stop) {
    options_.progress = [&stop](double) { return !stop.stop_requested(); };
    look_every(kEvery, stop, [this] { check_file(); });
  });
}

void FileFollower::check_file() {
  if (Clock::now() < next_) return;
  const FileStamp now = stamp_of(path());
  if (read_ == now) return;
  read_ = now;
  const auto start = Clock::now();
  read_file();
  next_ = Clock::now() + kLeastPauses * (Clock::now() - start);
}

void FileFollower::read_file() {
  OpenedRuns opened;
  std::string why;
  try {
    opened = open_runs({path()}, options_, most_runs_);
  } catch (const std::exception& error) {
    why = error.what();
    if (why.starts_with(path() + ": ")) why.erase(0, path().size() + 2);
  }
  const std::lock_guard lock(mutex_);
  problem_ = why;
  if (opened.histories.empty()) return;
  histories_ = std::move(opened.histories);
  remarks_ = std::move(opened.remarks);
  bad_ = opened.skipped.empty() ? BadLines() : std::move(opened.skipped.front().bad);
}

std::vector<std::shared_ptr<History>> FileFollower::histories() const {
  const std::lock_guard lock(mutex_);
  return histories_;
}
BadLines FileFollower::bad() const {
  const std::lock_guard lock(mutex_);
  return bad_;
}
std::vector<std::string> FileFollower::remarks() const {
  const std::lock_guard lock(mutex_);
  return remarks_;
}
std::string FileFollower::amount() const {
  std::int64_t newest = -1;
  for (const auto& history : histories()) newest = std::max(newest, history->steps().last);
  return newest < 0 ? "no step yet" : "up to step " + std::to_string(newest);
}
std::string FileFollower::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
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
