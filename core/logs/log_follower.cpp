#include "core/logs/log_follower.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "core/io/text_encoding.h"
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

}  // namespace

struct LogFollower::State {
  State(const std::string& path, int run) : path(path) {
    options.run = run;
    reader = std::make_unique<LogReader>(path, options);
  }

  const std::string& path;
  ImportOptions options;

  mutable std::mutex mutex;  // protects the members that other threads read
  std::unique_ptr<LogReader> reader;
  std::string problem;
  int restarts = 0;

  // Members below are used by the follower's thread only.
  LineSplitter splitter;
  int file = -1;
  FileId id;
  off_t position = 0;
  // The first and the last bytes that were read. They detect a file that was rewritten in place, even if it is longer
  // by now; the last bytes are needed because many logs begin with the same line.
  std::string first_bytes, last_bytes;
  std::chrono::steady_clock::time_point last_line{};
  bool settled = true;
  std::stop_token stop;

  ~State() {
    if (file >= 0) ::close(file);
  }

  void restart();
  bool open_file();
  bool is_another_file() const;
  bool holds(const std::string& bytes, off_t at) const;
  void remember(std::string_view bytes);
  void read_on();
  void check_file();
};

void LogFollower::State::restart() {
  if (file >= 0) ::close(file);
  file = -1;
  position = 0;
  first_bytes.clear();
  last_bytes.clear();
  splitter = {};
  const std::lock_guard lock(mutex);
  if (reader->lines() > 0) {
    ++restarts;
    reader = std::make_unique<LogReader>(path, options);
  }
}

bool LogFollower::State::open_file() {
  if (file >= 0) return true;
  file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  const bool regular = file >= 0 && ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const std::lock_guard lock(mutex);
  problem = file < 0 ? std::strerror(errno) : regular ? "" : "not a file";
  if (file >= 0 && !regular) {
    ::close(file);
    file = -1;
  }
  id = {status.st_dev, status.st_ino};
  return file >= 0;
}

// True if the file was truncated, replaced by another file of that name (log rotation), or rewritten in place. A
// deleted file may still be written to, so the follower keeps reading the open file.
bool LogFollower::State::is_another_file() const {
  struct stat status {};
  if (::fstat(file, &status) != 0 || status.st_size < position) return true;
  if (::stat(path.c_str(), &status) == 0 && !(id == FileId{status.st_dev, status.st_ino})) return true;
  return !holds(first_bytes, 0) || !holds(last_bytes, position - static_cast<off_t>(last_bytes.size()));
}

bool LogFollower::State::holds(const std::string& bytes, off_t at) const {
  std::string now(bytes.size(), '\0');
  return ::pread(file, now.data(), now.size(), at) == static_cast<ssize_t>(now.size()) && now == bytes;
}

void LogFollower::State::remember(std::string_view bytes) {
  if (first_bytes.size() < kRecognisedBytes) first_bytes += bytes.substr(0, kRecognisedBytes - first_bytes.size());
  last_bytes += bytes.substr(bytes.size() - std::min(bytes.size(), kRecognisedBytes));
  if (last_bytes.size() > kRecognisedBytes) last_bytes.erase(0, last_bytes.size() - kRecognisedBytes);
}

void LogFollower::State::read_on() {
  std::string chunk(kFollowedBytes, '\0');
  for (;;) {
    const ssize_t got = ::pread(file, chunk.data(), chunk.size(), position);
    // If another file is there now, these bytes do not continue those read before. The next look starts again.
    if (got <= 0 || is_another_file()) return;
    const std::string_view bytes = std::string_view(chunk).substr(0, static_cast<std::size_t>(got));
    if (position == 0) {
      const std::lock_guard lock(mutex);
      problem = encoding_problem(bytes);
      if (!problem.empty()) return;
    }
    remember(bytes);
    position += got;
    const std::lock_guard lock(mutex);
    splitter.add(bytes, *reader);
    last_line = std::chrono::steady_clock::now();
    settled = false;
    if (stop.stop_requested()) return;
  }
}

void LogFollower::State::check_file() {
  if (file >= 0 && is_another_file()) restart();
  if (!open_file()) return;
  read_on();
  if (settled || std::chrono::steady_clock::now() - last_line < kSettleAfter) return;
  settled = true;  // half a line is kept, because its end may follow
  const std::lock_guard lock(mutex);
  reader->finish_step();
}

LogFollower::LogFollower(std::string path, ByHand, int run)
    : Follower(std::move(path)), state_(std::make_unique<State>(Follower::path(), run)) {}

LogFollower::LogFollower(std::string path, int run) : LogFollower(std::move(path), ByHand(), run) {
  thread_ = std::jthread([state = state_.get()](const std::stop_token& stop) {
    state->stop = stop;
    look_every(kEvery, stop, [state] { state->check_file(); });
  });
}

LogFollower::~LogFollower() = default;

void LogFollower::look() {
  state_->check_file();
}

std::vector<std::shared_ptr<History>> LogFollower::histories() const {
  const std::lock_guard lock(state_->mutex);
  return state_->reader->histories();
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
int LogFollower::restarts() const {
  const std::lock_guard lock(state_->mutex);
  return state_->restarts;
}
std::string LogFollower::problem() const {
  const std::lock_guard lock(state_->mutex);
  return state_->problem;
}

}  // namespace moescope
