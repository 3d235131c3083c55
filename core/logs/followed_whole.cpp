#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/logs/file_kind.h"
#include "core/logs/followed.h"
#include "core/logs/log_readers.h"

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

class FollowedWhole : public Followed {
 public:
  FollowedWhole(std::string path, ImportOptions options) : Followed(std::move(path), std::move(options)) {}
  std::chrono::milliseconds pause() const override { return std::chrono::milliseconds(500); }
  void look(const std::stop_token& stop) override;
  void finish() override;
  std::vector<std::shared_ptr<History>> histories() const override { return histories_; }
  BadLines bad() const override { return bad_; }
  std::vector<std::string> remarks() const override { return remarks_; }
  std::vector<ImportAccount> accounts() const override { return accounts_; }
  std::string amount() const override;

 private:
  using Frames = std::vector<std::shared_ptr<const TelemetryFrame>>;
  bool has_last_row() const;
  void read_file(bool growing);
  Frames read_frames();
  void keep_steps();
  void replace_histories(std::vector<std::shared_ptr<History>> histories);
  void remember_form();

  // Protected by `mutex`:
  std::vector<std::shared_ptr<History>> histories_;
  BadLines bad_;
  std::vector<std::string> remarks_;
  std::vector<ImportAccount> accounts_;

  std::optional<FileStamp> read_;
  Clock::time_point changed_{}, next_{};
  bool is_read_to_end_ = false;           // with a last row that has no newline
  bool has_shrunk_ = false;               // since steps were read
  bool knows_form_ = false;               // see remember_form()
  bool has_rows_ = false;                 // the file has lines, so that a last one may have no newline
  std::vector<std::int64_t> kept_until_;  // by run: last step of the files before this one; empty: nothing is kept
};

void FollowedWhole::look(const std::stop_token& stop) {
  options_.progress = [&stop](double) { return !stop.stop_requested(); };
  if (Clock::now() < next_) return;
  const FileStamp stamp = stamp_of(path_);
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
bool FollowedWhole::has_last_row() const {
  return has_rows_ && !is_read_to_end_ && Clock::now() - changed_ >= kSettleAfter && is_closed_by_writers(path_);
}

void FollowedWhole::read_file(bool growing) {
  options_.growing = growing;
  OpenedRuns opened;
  Frames frames;
  bool goes_on = false, is_next = false;
  std::string reason;
  try {
    opened = open_runs({path_}, options_, options_.most_runs);
    is_next = begins_after(opened.histories, newest_steps(histories_));
    goes_on = is_next || begins_after(opened.histories, kept_until_);
    if (goes_on) frames = read_frames();
    remember_form();
  } catch (const std::exception& error) {
    reason = error.what();
    if (reason.starts_with(path_ + ": ")) reason.erase(0, path_.size() + 2);
  }
  const std::lock_guard lock(mutex);
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
FollowedWhole::Frames FollowedWhole::read_frames() {
  Frames frames;
  ImportOptions options = options_;
  options.on_frame = [&](const auto& frame) { frames.push_back(frame); };
  if (open_runs({path_}, options, options_.most_runs).histories.size() != histories_.size()) frames.clear();
  return frames;
}

void FollowedWhole::keep_steps() {
  kept_until_ = newest_steps(histories_);
  has_shrunk_ = false;
  const std::int64_t last = std::ranges::max(kept_until_);
  restart_remarks_.insert(restart_remarks_.end(), {truncated_text(last), kept_text(last)});
}

void FollowedWhole::replace_histories(std::vector<std::shared_ptr<History>> histories) {
  const auto before = newest_steps(histories_);
  histories_ = std::move(histories);
  kept_until_.clear();
  const bool has_fewer = !before.empty() && std::ranges::max(newest_steps(histories_)) < std::ranges::max(before);
  if (!std::exchange(has_shrunk_, false) || !has_fewer) return;
  const std::int64_t last = std::ranges::max(before);
  restart_remarks_.insert(restart_remarks_.end(), {truncated_text(last), dropped_text(last)});
}

// Notes what the file is, because a truncated table may have lost its header.
void FollowedWhole::remember_form() {
  if (std::exchange(knows_form_, true) || !fs::is_regular_file(path_)) return;
  const FileKind kind = file_kind(path_, options_);
  has_rows_ = kind == FileKind::load_table || kind == FileKind::router_trace || kind == FileKind::te_statistics;
  if (kind == FileKind::load_table) options_.table_header = table_header(path_);
}

void FollowedWhole::finish() {
  options_.progress = {};
  read_file(false);
}

std::string FollowedWhole::amount() const {
  const std::int64_t newest = histories_.empty() ? -1 : std::ranges::max(newest_steps(histories_));
  return newest < 0 ? "no step yet" : fmt::format("up to step {}", newest);
}

}  // namespace

std::unique_ptr<Followed> follow_whole(const std::string& path, ImportOptions options) {
  return std::make_unique<FollowedWhole>(path, std::move(options));
}

}  // namespace moescope
