#include "core/logs/file_follower.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "core/logs/file_kind.h"
#include "core/logs/log_follower.h"
#include "core/logs/open_runs.h"
#include "core/logs/table/import_table.h"
#include "core/logs/table/table_form.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

using Histories = std::vector<std::shared_ptr<History>>;

constexpr int kMinPauses = 9;  // least pause after a reading, as a multiple of its duration

std::vector<std::int64_t> newest_steps(const Histories& runs) {
  std::vector<std::int64_t> newest;
  for (const auto& run : runs) newest.push_back(run->steps().last);
  return newest;
}

// True if the runs are those whose last steps are given, and each begins after its last step.
bool begins_after(const Histories& runs, const std::vector<std::int64_t>& last_steps) {
  return !runs.empty() && std::ranges::equal(runs, last_steps, [](const auto& run, std::int64_t last) {
    return run->steps().first > last;
  });
}

}  // namespace

FileFollower::FileFollower(std::string path, int run, std::size_t most_runs, std::vector<std::string> only,
                           const StatedLog& stated)
    : Follower(std::move(path)), most_runs_(most_runs) {
  options_.run = run;
  options_.only = std::move(only);
  stated.put_into(options_);
  options_.growing = true;
  thread_ = std::jthread([this](const std::stop_token& stop) {
    options_.progress = [&stop](double) { return !stop.stop_requested(); };
    look_every(kEvery, stop, [this] { check_file(); });
  });
}

void FileFollower::check_file() {
  if (Clock::now() < next_) return;
  const FileStamp stamp = stamp_of(path());
  const bool is_changed = read_ != stamp;
  if (is_changed) changed_ = Clock::now();
  if (!is_changed && !has_last_row()) return;
  has_shrunk_ = has_shrunk_ || (read_ && stamp.bytes < read_->bytes);
  read_ = stamp;
  is_read_to_end_ = !is_changed;
  const auto start = Clock::now();
  read_file(is_changed);
  next_ = Clock::now() + kMinPauses * (Clock::now() - start);
}

// True if the file may have a last row without a newline that is finished nevertheless.
bool FileFollower::has_last_row() const {
  return has_rows_ && !is_read_to_end_ && Clock::now() - changed_ >= kLastRowAfter && is_closed_by_writers(path());
}

void FileFollower::read_file(bool growing) {
  options_.growing = growing;
  OpenedRuns opened;
  Frames frames;
  bool goes_on = false, is_next = false;
  std::string reason;
  try {
    opened = open_runs({path()}, options_, most_runs_);
    is_next = begins_after(opened.histories, newest_steps(histories_));
    goes_on = is_next || begins_after(opened.histories, kept_until_);
    if (goes_on) frames = read_frames();
    remember_form();
  } catch (const std::exception& error) {
    reason = error.what();
    if (reason.starts_with(path() + ": ")) reason.erase(0, path().size() + 2);
  }
  const std::lock_guard lock(mutex_);
  problem_ = reason;
  if (opened.histories.empty() || !reason.empty()) return;
  remarks_ = std::move(opened.remarks);
  accounts_ = std::move(opened.accounts);
  bad_ = opened.skipped.empty() ? BadLines() : std::move(opened.skipped.front().bad);
  if (!goes_on) return replace_histories(std::move(opened.histories));
  if (is_next) keep_steps();
  for (std::size_t i = 0; i < histories_.size(); ++i) histories_[i]->forget_from(kept_until_[i] + 1);
  for (const auto& frame : frames) histories_[frame->run - options_.run]->append(frame);
}

// Reads the file again, because a history does not give back its frames in full.
FileFollower::Frames FileFollower::read_frames() {
  Frames frames;
  ImportOptions options = options_;
  options.on_frame = [&](const auto& frame) { frames.push_back(frame); };
  if (open_runs({path()}, options, most_runs_).histories.size() != histories_.size()) frames.clear();
  return frames;
}

void FileFollower::keep_steps() {
  kept_until_ = newest_steps(histories_);
  has_shrunk_ = false;
  const std::int64_t last = std::ranges::max(kept_until_);
  for (std::string text : {truncated_text(last), kept_text(last)}) restart_remarks_.push_back(std::move(text));
}

void FileFollower::replace_histories(std::vector<std::shared_ptr<History>> histories) {
  const auto before = newest_steps(histories_);
  histories_ = std::move(histories);
  kept_until_.clear();
  const bool has_fewer = !before.empty() && std::ranges::max(newest_steps(histories_)) < std::ranges::max(before);
  if (!std::exchange(has_shrunk_, false) || !has_fewer) return;
  const std::int64_t last = std::ranges::max(before);
  for (std::string text : {truncated_text(last), dropped_text(last)}) restart_remarks_.push_back(std::move(text));
}

// Notes what the file is, because a truncated table may have lost its header.
void FileFollower::remember_form() {
  if (std::exchange(knows_form_, true) || !fs::is_regular_file(path())) return;
  const FileKind kind = file_kind(path(), options_);
  has_rows_ = kind == FileKind::load_table || kind == FileKind::router_trace || kind == FileKind::te_statistics;
  if (kind == FileKind::load_table) options_.table_header = table_header(path());
}

void FileFollower::finish() {
  thread_ = {};
  options_.progress = {};
  read_file(false);
}

std::string FileFollower::amount() const {
  std::int64_t newest = -1;
  for (const auto& history : histories()) newest = std::max(newest, history->steps().last);
  return newest < 0 ? "no step yet" : "up to step " + std::to_string(newest);
}

std::unique_ptr<Follower> follow_file(const std::string& path, int run, std::size_t most_runs,
                                      std::vector<std::string> only, const StatedLog& stated) {
  ImportOptions options;
  stated.put_into(options);
  FileKind kind = is_named_csv(path) ? FileKind::load_table : FileKind::training_log;
  try {
    if (fs::is_directory(path) || fs::file_size(path) > 0) kind = file_kind(path, options);
  } catch (const std::runtime_error&) {  // the file does not exist yet or cannot be read; the follower reports this
  }
  if (kind == FileKind::training_log || kind == FileKind::text_log || !holds_runs(kind))
    return std::make_unique<LogFollower>(path, run, stated);
  return std::make_unique<FileFollower>(path, run, most_runs, std::move(only), stated);
}

}  // namespace moescope
