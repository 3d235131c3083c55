#include "core/logs/standard_input.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "core/files/unreadable.h"
#include "core/files/whole_file.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr int kPollMs = 100;  // between two looks whether the copying shall end
constexpr std::size_t kCopiedBytes = std::size_t{256} << 10;

std::atomic<int> copy_descriptor = -1;  // -1: there is no copy

std::string path_of(int descriptor) {
  return fmt::format("/proc/self/fd/{}", descriptor);
}

}  // namespace

std::string named_standard_input(std::string text) {
  if (text == kStandardInput) return kStandardInputName;
  const int descriptor = copy_descriptor;
  const std::string path = path_of(descriptor);
  for (std::size_t at = 0; descriptor >= 0 && (at = text.find(path, at)) != std::string::npos;)
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
  // A file without a name, of which nothing is left however the program ends.
  const fs::path folder = fs::temp_directory_path();
  file_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file_ < 0) {  // as on NFS
    std::string name = (folder / "moescope-XXXXXX").string();
    file_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (file_ < 0) refuse(name, std::strerror(errno));
    ::unlink(name.c_str());
  }
  copy_descriptor = file_;
  path_ = path_of(file_);
  thread_ = std::jthread([this](const std::stop_token& stop) { copy(stop); });
}

StandardInput::~StandardInput() {
  thread_ = {};
  copy_descriptor = -1;
  ::close(file_);
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
  if (!write_all(file_, bytes))
    return "cannot be copied to " + fs::temp_directory_path().string() + ": " + std::strerror(errno);
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

bool StandardInput::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

std::string StandardInput::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

}  // namespace moescope
