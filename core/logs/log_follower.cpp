#include "core/logs/log_follower.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "core/files/text/text_encoding.h"
#include "core/logs/file_stamp.h"
#include "core/logs/lines/import_jsonl.h"

namespace moescope {

namespace {

constexpr std::size_t kFollowedBytes = std::size_t{256} << 10;
constexpr std::size_t kRecognisedBytes = 4096;

// Identifies the file at a path, to detect that another file has replaced it.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};

std::int64_t newest_step(const LogReader& reader) {
  std::int64_t newest = -1;
  for (const auto& history : reader.histories()) newest = std::max(newest, history->steps().last);
  return newest;
}

}  // namespace

struct LogFollower::State {
  State(const std::string& path, int run, const StatedLog& stated) : path(path) {
    options.run = run;
    stated.put_into(options);
    reader = std::make_unique<LogReader>(path, options);
  }

  const std::string& path;
  ImportOptions options;

  mutable std::mutex mutex;  // protects the members that other threads read
  std::unique_ptr<LogReader> reader;
  std::unique_ptr<LogReader> next;  // reads a file that replaced the earlier one, until it has a step
  std::string problem;
  std::vector<std::string> restart_remarks;

  // Members below are used by the follower's thread only.
  LineSplitter splitter;
  int file = -1;
  FileId id;
  off_t position = 0;
  // The first and the last bytes that were read. They detect a file that was rewritten in place, even if it is longer
  // by now; the last bytes are needed because many logs begin with the same line.
  std::string first_bytes, last_bytes;
  off_t first_at = 0;          // position of first_bytes
  bool part_is_tried = false;  // the last line, which has no newline, was looked at
  std::chrono::steady_clock::time_point last_line{};
  bool settled = true;
  std::stop_token stop;

  ~State() {
    if (file >= 0) ::close(file);
  }

  void begin_file();
  void restart();
  void choose_reader();
  LogReader& active() const { return next ? *next : *reader; }
  bool open_file();
  bool is_rewritten() const;
  bool is_replaced() const;
  bool holds(const std::string& bytes, off_t at) const;
  void remember(std::string_view bytes);
  void read_on();
  void settle();
  void check_file();
  void finish();
};

void LogFollower::State::begin_file() {
  position = first_at = 0;
  first_bytes.clear();
  last_bytes.clear();
  splitter = {};
}

void LogFollower::State::restart() {
  if (file >= 0) ::close(file);
  file = -1;
  begin_file();
  const std::lock_guard lock(mutex);
  if (active().lines() == 0) return;
  const std::int64_t last = newest_step(*reader);
  restart_remarks.push_back(truncated_text(last));
  (last < 0 ? reader : next) = std::make_unique<LogReader>(path, options);
}

// Decides what becomes of the earlier steps when the new file has its first step: if its steps go on, the reader of the
// earlier file reads the new one from its beginning.
void LogFollower::State::choose_reader() {
  if (!next || next->histories().empty()) return;
  const std::int64_t last = newest_step(*reader);
  if (next->goes_on_from(*reader)) {
    restart_remarks.push_back(kept_text(last));
    begin_file();
    settled = false;
  } else {
    restart_remarks.push_back(dropped_text(last));
    reader = std::move(next);
  }
  next.reset();
}

bool LogFollower::State::open_file() {
  if (file >= 0) return true;
  file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  const bool regular = file >= 0 && ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const std::lock_guard lock(mutex);
  if (file < 0)
    problem = std::strerror(errno);
  else
    problem = regular ? "" : "not a file";
  if (file >= 0 && !regular) {
    ::close(file);
    file = -1;
  }
  id = {status.st_dev, status.st_ino};
  return file >= 0;
}

// True if the open file was truncated, or rewritten in place.
bool LogFollower::State::is_rewritten() const {
  struct stat status {};
  if (::fstat(file, &status) != 0 || status.st_size < position) return true;
  return !holds(first_bytes, first_at) || !holds(last_bytes, position - last_bytes.size());
}

// True if another file of that name has content (log rotation). Until then, and after the file is deleted, the program
// may still write to the open file.
bool LogFollower::State::is_replaced() const {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || status.st_size == 0) return false;
  return !(id == FileId{status.st_dev, status.st_ino});
}

bool LogFollower::State::holds(const std::string& bytes, off_t at) const {
  std::string present_bytes(bytes.size(), '\0');
  return ::pread(file, present_bytes.data(), present_bytes.size(), at) == static_cast<ssize_t>(present_bytes.size()) &&
         present_bytes == bytes;
}

void LogFollower::State::remember(std::string_view bytes) {
  if (first_bytes.size() < kRecognisedBytes) first_bytes += bytes.substr(0, kRecognisedBytes - first_bytes.size());
  last_bytes += bytes.substr(bytes.size() - std::min(bytes.size(), kRecognisedBytes));
  if (last_bytes.size() > kRecognisedBytes) last_bytes.erase(0, last_bytes.size() - kRecognisedBytes);
}

void LogFollower::State::read_on() {
  std::string chunk(kFollowedBytes, '\0');
  for (;;) {
    const ssize_t read_bytes = ::pread(file, chunk.data(), chunk.size(), position);
    // If the file was rewritten, these bytes do not continue those read before. The next look starts again.
    if (read_bytes <= 0 || is_rewritten()) return;
    std::string_view bytes = std::string_view(chunk).substr(0, read_bytes);
    // A program that goes on at its position in a file that was truncated leaves zeros before it.
    if (first_bytes.empty()) {
      const std::size_t zeros = std::min(bytes.find_first_not_of('\0'), bytes.size());
      first_at = position += zeros;
      bytes.remove_prefix(zeros);
      const std::lock_guard lock(mutex);
      problem = encoding_problem(bytes);
      if (!problem.empty()) return;
    }
    remember(bytes);
    position += bytes.size();
    const std::lock_guard lock(mutex);
    splitter.add(bytes, active());
    last_line = std::chrono::steady_clock::now();
    settled = part_is_tried = false;
    choose_reader();
    if (stop.stop_requested()) return;
  }
}

// Completes the newest step if no further line follows. Keeps half a line, because its end may follow, unless its
// writer has closed the file.
void LogFollower::State::settle() {
  if (std::chrono::steady_clock::now() - last_line < kSettleAfter) return;
  const bool is_last = !part_is_tried && splitter.holds_unread_part() && is_closed_by_writers(path);
  if (settled && !is_last) return;
  settled = true;
  part_is_tried = is_last;
  const std::lock_guard lock(mutex);
  if (is_last && active().is_whole(splitter.part())) splitter.read_part(active());
  active().finish_step();
  choose_reader();
}

void LogFollower::State::check_file() {
  if (file >= 0 && is_rewritten()) restart();
  if (!open_file()) return;
  read_on();
  if (is_replaced() && !is_rewritten()) {
    finish();
    read_on();  // reads the file again if its steps go on
    restart();
    if (!open_file()) return;
    read_on();
  }
  settle();
}

void LogFollower::State::finish() {
  const std::lock_guard lock(mutex);
  if (splitter.holds_part()) splitter.finish(active());
  active().finish_step();
  choose_reader();
}

LogFollower::LogFollower(std::string path, ByHand, int run, const StatedLog& stated)
    : Follower(std::move(path)), state_(std::make_unique<State>(Follower::path(), run, stated)) {}

LogFollower::LogFollower(std::string path, int run, const StatedLog& stated)
    : LogFollower(std::move(path), ByHand(), run, stated) {
  thread_ = std::jthread([state = state_.get()](const std::stop_token& stop) {
    state->stop = stop;
    look_every(kEvery, stop, [state] { state->check_file(); });
  });
}

LogFollower::~LogFollower() = default;

void LogFollower::finish() {
  thread_ = {};
  state_->stop = {};
  look();
  state_->finish();
  look();  // reads the file again if its steps go on
}

void LogFollower::look() {
  state_->check_file();
}

std::vector<std::shared_ptr<History>> LogFollower::histories() const {
  const std::lock_guard lock(state_->mutex);
  return state_->reader->histories();
}
std::vector<ImportAccount> LogFollower::accounts() const {
  const std::lock_guard lock(state_->mutex);
  return {state_->reader->account()};
}
std::vector<std::string> LogFollower::remarks() const {
  const std::lock_guard lock(state_->mutex);
  return state_->reader->remarks();
}

BadLines LogFollower::bad() const {
  const std::lock_guard lock(state_->mutex);
  return state_->reader->bad();
}
std::int64_t LogFollower::lines() const {
  const std::lock_guard lock(state_->mutex);
  return state_->reader->lines();
}
std::string LogFollower::amount() const {
  const std::int64_t count = lines();
  return std::to_string(count) + (count == 1 ? " line" : " lines");
}
std::vector<std::string> LogFollower::restart_remarks() const {
  const std::lock_guard lock(state_->mutex);
  return state_->restart_remarks;
}
std::string LogFollower::problem() const {
  const std::lock_guard lock(state_->mutex);
  return state_->problem;
}

}  // namespace moescope
