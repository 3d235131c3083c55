#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/files/text/text_encoding.h"
#include "core/logs/followed.h"
#include "core/logs/lines/import_jsonl.h"

namespace moescope {

namespace {

constexpr std::size_t kFollowedBytes = std::size_t{256} << 10;
constexpr std::size_t kRecognisedBytes = 4096;

// Device and inode of the file at a path, to detect that another file has replaced it.
using FileId = std::pair<dev_t, ino_t>;

std::int64_t newest_step(const LogReader& reader) {
  std::int64_t newest = -1;
  for (const auto& history : reader.histories()) newest = std::max(newest, history->steps().last);
  return newest;
}

class FollowedLines : public Followed {
 public:
  FollowedLines(std::string path, ImportOptions options) : Followed(std::move(path), std::move(options)) {
    options_.most_runs = SIZE_MAX;  // more runs may follow
    reader_ = std::make_unique<LogReader>(path_, options_);
  }
  ~FollowedLines() override { close_file(); }
  std::chrono::milliseconds pause() const override { return std::chrono::milliseconds(100); }
  void look(const std::stop_token& stop) override;
  void finish() override;
  std::vector<std::shared_ptr<History>> histories() const override { return reader_->histories(); }
  BadLines bad() const override { return reader_->bad(); }
  bool has_ranks_in_turn() const override { return reader_->has_ranks_in_turn(); }
  std::vector<std::string> remarks() const override { return reader_->remarks(); }
  std::vector<ImportAccount> accounts() const override { return {reader_->account()}; }
  std::string amount() const override {
    return fmt::format("{}{}", reader_->lines(), reader_->lines() == 1 ? " line" : " lines");
  }

 private:
  void begin_file();
  void close_file();
  void restart();
  void choose_reader();
  LogReader& active() const { return next_ ? *next_ : *reader_; }
  bool open_file();
  bool is_rewritten() const;
  bool is_replaced() const;
  bool holds(const std::string& bytes, off_t at) const;
  void remember(std::string_view bytes);
  void read_on(const std::stop_token& stop);
  void settle();
  void end_lines();

  // Protected by `mutex`:
  std::unique_ptr<LogReader> reader_;
  std::unique_ptr<LogReader> next_;  // reads a file that replaced the earlier one, until it has a step

  LineSplitter splitter_;
  int file_ = -1;
  FileId id_;
  off_t position_ = 0;
  // The first and the last bytes that were read. They detect a file that was rewritten in place, even if it is longer
  // by now; the last bytes are needed because many logs begin with the same line.
  std::string first_bytes_, last_bytes_;
  off_t first_at_ = 0;          // position of first_bytes_
  bool part_is_tried_ = false;  // the last line, which has no newline, was looked at
  std::chrono::steady_clock::time_point last_line_{};
  bool settled_ = true;
};

void FollowedLines::begin_file() {
  position_ = first_at_ = 0;
  first_bytes_.clear();
  last_bytes_.clear();
  splitter_ = {};
}

void FollowedLines::close_file() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

void FollowedLines::restart() {
  close_file();
  begin_file();
  const std::lock_guard lock(mutex);
  if (active().lines() == 0) return;
  const std::int64_t last = newest_step(*reader_);
  restart_remarks_.push_back(truncated_text(last));
  (last < 0 ? reader_ : next_) = std::make_unique<LogReader>(path_, options_);
}

// Decides what becomes of the earlier steps when the new file has its first step: if its steps go on, the reader of the
// earlier file reads the new one from its beginning.
void FollowedLines::choose_reader() {
  if (!next_ || next_->histories().empty()) return;
  const std::int64_t last = newest_step(*reader_);
  if (next_->goes_on_from(*reader_)) {
    restart_remarks_.push_back(kept_text(last));
    begin_file();
    settled_ = false;
  } else {
    restart_remarks_.push_back(dropped_text(last));
    reader_ = std::move(next_);
  }
  next_.reset();
}

bool FollowedLines::open_file() {
  if (file_ >= 0) return true;
  file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  const bool regular = file_ >= 0 && ::fstat(file_, &status) == 0 && S_ISREG(status.st_mode);
  const std::lock_guard lock(mutex);
  if (file_ < 0)
    problem_ = std::strerror(errno);
  else
    problem_ = regular ? "" : "not a file";
  if (!regular) close_file();
  id_ = {status.st_dev, status.st_ino};
  return file_ >= 0;
}

// True if the open file was truncated, or rewritten in place.
bool FollowedLines::is_rewritten() const {
  struct stat status {};
  if (::fstat(file_, &status) != 0 || status.st_size < position_) return true;
  return !holds(first_bytes_, first_at_) || !holds(last_bytes_, position_ - last_bytes_.size());
}

// True if another file of that name has content (log rotation). Until then, and after the file is deleted, the program
// may still write to the open file.
bool FollowedLines::is_replaced() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0 || status.st_size == 0) return false;
  return id_ != FileId(status.st_dev, status.st_ino);
}

bool FollowedLines::holds(const std::string& bytes, off_t at) const {
  std::string present_bytes(bytes.size(), '\0');
  return ::pread(file_, present_bytes.data(), present_bytes.size(), at) == static_cast<ssize_t>(present_bytes.size()) &&
         present_bytes == bytes;
}

void FollowedLines::remember(std::string_view bytes) {
  if (first_bytes_.size() < kRecognisedBytes) first_bytes_ += bytes.substr(0, kRecognisedBytes - first_bytes_.size());
  last_bytes_ += bytes.substr(bytes.size() - std::min(bytes.size(), kRecognisedBytes));
  if (last_bytes_.size() > kRecognisedBytes) last_bytes_.erase(0, last_bytes_.size() - kRecognisedBytes);
}

void FollowedLines::read_on(const std::stop_token& stop) {
  std::string chunk(kFollowedBytes, '\0');
  for (;;) {
    const ssize_t read_bytes = ::pread(file_, chunk.data(), chunk.size(), position_);
    // If the file was rewritten, these bytes do not continue those read before. The next look starts again.
    if (read_bytes <= 0 || is_rewritten()) return;
    std::string_view bytes = std::string_view(chunk).substr(0, read_bytes);
    // A program that goes on at its position in a file that was truncated leaves zeros before it.
    if (first_bytes_.empty()) {
      const std::size_t zeros = std::min(bytes.find_first_not_of('\0'), bytes.size());
      first_at_ = position_ += zeros;
      bytes.remove_prefix(zeros);
      const std::lock_guard lock(mutex);
      problem_ = encoding_problem(bytes);
      if (!problem_.empty()) return;
    }
    remember(bytes);
    position_ += bytes.size();
    const std::lock_guard lock(mutex);
    splitter_.add(bytes, active());
    last_line_ = std::chrono::steady_clock::now();
    settled_ = part_is_tried_ = false;
    choose_reader();
    if (stop.stop_requested()) return;
  }
}

// Completes the newest step if no further line follows. Keeps half a line, because its end may follow, unless its
// writer has closed the file.
void FollowedLines::settle() {
  if (std::chrono::steady_clock::now() - last_line_ < kSettleAfter) return;
  const bool is_last = !part_is_tried_ && splitter_.holds_unread_part() && is_closed_by_writers(path_);
  if (settled_ && !is_last) return;
  settled_ = true;
  part_is_tried_ = is_last;
  const std::lock_guard lock(mutex);
  if (is_last && active().is_whole(splitter_.part())) splitter_.read_part(active());
  active().finish_step();
  choose_reader();
}

void FollowedLines::end_lines() {
  const std::lock_guard lock(mutex);
  if (splitter_.holds_part()) splitter_.finish(active());
  active().finish_step();
  choose_reader();
}

void FollowedLines::look(const std::stop_token& stop) {
  if (file_ >= 0 && is_rewritten()) restart();
  if (!open_file()) return;
  read_on(stop);
  if (is_replaced() && !is_rewritten()) {
    end_lines();
    read_on(stop);  // reads the file again if its steps go on
    restart();
    if (!open_file()) return;
    read_on(stop);
  }
  settle();
}

void FollowedLines::finish() {
  look({});
  end_lines();
  look({});  // reads the file again if its steps go on
}

}  // namespace

std::unique_ptr<Followed> follow_lines(const std::string& path, ImportOptions options) {
  return std::make_unique<FollowedLines>(path, std::move(options));
}

}  // namespace moescope
