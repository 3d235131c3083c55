#include "core/logs/standard_input.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "core/files/whole_file.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr int kPollMs = 100;  // between two looks whether the copying shall end
constexpr std::size_t kCopiedBytes = std::size_t{256} << 10;

// The paths of the copy, which a signal removes; empty: none. A handler cannot read a std::string safely.
std::array<char, PATH_MAX> removed_file{}, removed_folder{};

void remove_and_end(int signal) {
  ::unlink(removed_file.data());
  ::rmdir(removed_folder.data());
  ::raise(signal);  // ends the program, since the handler is reset (SA_RESETHAND)
}

void set_removed(std::array<char, PATH_MAX>& removed, const std::string& path) {
  if (path.size() >= removed.size()) return;
  std::ranges::copy(path.c_str() + 1, path.c_str() + path.size() + 1, removed.begin() + 1);
  removed.front() = path.front();  // last, because a signal may arrive during the copying
}

// Handles only signals that would end the program: a program with handlers ends in its own order.
void remove_at_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    struct sigaction present {};
    if (::sigaction(signal, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) continue;
    present.sa_handler = remove_and_end;
    present.sa_flags = SA_RESETHAND;
    ::sigaction(signal, &present, nullptr);
  }
}

}  // namespace

std::string named_standard_input(std::string text) {
  if (text == kStandardInput) return kStandardInputName;
  const std::string_view path = removed_file.data();
  for (std::size_t at = 0; !path.empty() && (at = text.find(path, at)) != std::string::npos;)
    text.replace(at, path.size(), kStandardInputName);
  return text;
}

void require_standard_input() {
  const int flags = ::fcntl(STDIN_FILENO, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY) throw std::runtime_error("standard input: is closed");
  if (::isatty(STDIN_FILENO) == 1)
    throw std::runtime_error(
        "standard input: is a terminal, expected a log; for example: ssh HOST tail -n +1 -F run.jsonl | COMMAND -");
}

StandardInput::StandardInput() {
  require_standard_input();
  // The paths are set before the folder and the file exist, so that a signal at any time leaves none behind.
  const std::string pattern = (fs::temp_directory_path() / "moescope-XXXXXX").string();
  set_removed(removed_folder, pattern);
  remove_at_signals();
  if (!::mkdtemp(removed_folder.data())) {
    const std::string reason = std::strerror(errno);
    remove_file();
    throw std::runtime_error(pattern + ": " + reason);
  }
  folder_ = removed_folder.data();
  path_ = folder_ + "/" + kStandardInputName;
  set_removed(removed_file, path_);
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file_ < 0) {
    const std::string reason = std::strerror(errno);
    remove_file();
    throw std::runtime_error(path_ + ": " + reason);
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { copy(stop); });
}

StandardInput::~StandardInput() {
  thread_ = {};
  ::close(file_);
  remove_file();
}

void StandardInput::remove_file() {
  ::unlink(path_.c_str());
  ::rmdir(folder_.c_str());
  removed_file.front() = removed_folder.front() = '\0';
}

void StandardInput::copy(const std::stop_token& stop) {
  bool ended = false;
  std::string problem;
  while (!ended && problem.empty() && !stop.stop_requested()) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, kPollMs) > 0) problem = copy_some(ended);
  }
  const std::lock_guard lock(mutex_);
  has_line_ = has_ended_ = true;
  problem_ = problem;
  changed_.notify_all();
}

// Copies what has arrived. Returns why it failed, else an empty text.
std::string StandardInput::copy_some(bool& ended) {
  std::string chunk(kCopiedBytes, '\0');
  const ssize_t read_bytes = ::read(STDIN_FILENO, chunk.data(), chunk.size());
  if (read_bytes < 0) return errno == EINTR || errno == EAGAIN ? std::string() : std::strerror(errno);
  ended = read_bytes == 0;
  const std::string_view bytes = std::string_view(chunk).substr(0, read_bytes);
  if (!write_all(file_, bytes)) return "cannot be copied to " + folder_ + ": " + std::strerror(errno);
  if (bytes.find('\n') == std::string_view::npos) return {};
  const std::lock_guard lock(mutex_);
  has_line_ = true;
  changed_.notify_all();
  return {};
}

bool StandardInput::wait_for_line(const std::stop_token& stop) const {
  std::unique_lock lock(mutex_);
  return changed_.wait(lock, stop, [this] { return has_line_; });
}

bool StandardInput::wait_for_end(const std::stop_token& stop) const {
  std::unique_lock lock(mutex_);
  return changed_.wait(lock, stop, [this] { return has_ended_; });
}

std::string StandardInput::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

}  // namespace moescope
