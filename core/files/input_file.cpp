#include "core/files/input_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <new>
#include <string_view>

#include "core/files/text/text_encoding.h"
#include "core/files/unreadable.h"

namespace moescope {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10, kLookedAt = 256;
constexpr std::string_view kLfsPointer = "version https://git-lfs", kGzip = "\x1f\x8b";
constexpr std::uint64_t kLongestPointer = 1024;  // bytes, by the specification of Git LFS

void require_regular(const std::string& path, const struct stat& status) {
  if (S_ISREG(status.st_mode)) return;
  const char* is = "a device";
  if (S_ISSOCK(status.st_mode)) is = "a socket";
  if (S_ISFIFO(status.st_mode)) is = "a named pipe (FIFO)";
  if (S_ISDIR(status.st_mode)) is = "a directory";
  const char* advice = S_ISFIFO(status.st_mode) ? "; a log is read from a pipe as standard input: - < PIPE" : "";
  refuse(path, std::string("is ") + is + ", expected a file" + advice);
}

bool begins_with(int descriptor, std::string_view beginning) {
  std::string bytes(beginning.size(), '\0');
  return ::pread(descriptor, bytes.data(), bytes.size(), 0) == std::ssize(bytes) && bytes == beginning;
}

}  // namespace

void require_regular_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) refuse(path, std::string("cannot be opened: ") + std::strerror(errno));
  require_regular(path, status);
}

std::string suffix_of(const std::string& path) {
  const std::filesystem::path name(path);
  return (name.extension() == ".gz" ? name.stem() : name).extension().string();
}

InputFile::InputFile(const std::string& path) : path_(path), compressed_(nullptr, ::gzclose) {
  require_regular_file(path);  // checked before opening, because opening some devices has effects
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0) refuse(path, std::string("cannot be opened: ") + std::strerror(errno));
  struct stat status {};
  try {
    if (::fstat(descriptor_, &status) != 0) refuse(path, std::string("cannot be read: ") + std::strerror(errno));
    require_regular(path, status);  // the file may have been replaced since the check
    size_ = status.st_size;
    if (size_ <= kLongestPointer && begins_with(descriptor_, kLfsPointer))
      refuse(path, "is a Git LFS pointer in place of the file; run 'git lfs pull' in its folder");
    std::string beginning(kLookedAt, '\0');
    beginning.resize(std::max<ssize_t>(0, ::pread(descriptor_, beginning.data(), beginning.size(), 0)));
    if (is_big_endian_ = is_big_endian_utf16(beginning); is_big_endian_) {
      encoding_ = encoding_problem(beginning);
      size_ /= 2;
    }
    if (begins_with(descriptor_, kGzip)) {
      encoding_ = encoding_problem(kGzip);
      compressed_.reset(::gzdopen(descriptor_, "rb"));
      if (!compressed_) throw std::bad_alloc();
      // gzip writes the size of the text, modulo 2^32, at the end of its file.
      std::uint32_t bytes = 0;
      if (::pread(descriptor_, &bytes, sizeof bytes, static_cast<off_t>(size_ - sizeof bytes)) == sizeof bytes)
        size_ = bytes;
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputFile::~InputFile() {
  if (!compressed_) ::close(descriptor_);
}

int InputFile::descriptor() const {
  if (is_decoded()) refuse(path_, encoding_);
  return descriptor_;
}

std::size_t InputFile::read(char* to, std::size_t bytes) {
  if (!is_big_endian_) return read_bytes(to, bytes);
  for (std::size_t read_now = 1; read_now > 0 && text_.size() < bytes;) {
    const std::size_t before = utf16_.size();
    utf16_.resize(before + kChunk);
    read_now = read_bytes(utf16_.data() + before, kChunk);
    utf16_.resize(before + read_now);
    take_utf16(utf16_, *is_big_endian_, text_);
  }
  const std::size_t done = text_.copy(to, bytes);
  text_.erase(0, done);
  return done;
}

std::size_t InputFile::read_bytes(char* to, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const auto missing = static_cast<unsigned>(std::min<std::size_t>(bytes - done, std::numeric_limits<int>::max()));
    const ssize_t read_bytes =
        compressed_ ? ::gzread(compressed_.get(), to + done, missing) : ::read(descriptor_, to + done, missing);
    int problem = Z_OK;
    if (compressed_ && read_bytes <= 0) ::gzerror(compressed_.get(), &problem);
    if (problem != Z_OK) refuse(path_, "is gzip-compressed, and damaged or cut off: zcat writes what is left of it");
    if (read_bytes < 0 && errno == EINTR) continue;
    if (read_bytes < 0) refuse(path_, std::string("cannot be read: ") + std::strerror(errno));
    if (read_bytes == 0) break;
    done += read_bytes;
  }
  return done;
}

bool InputFile::read_line(std::string& line, std::size_t max_bytes) {
  line.clear();
  line_had_end_ = false;
  for (bool any = false;; any = true) {
    if (position_ == ahead_.size()) {
      ahead_.resize(kChunk);
      ahead_.resize(read(ahead_.data(), ahead_.size()));
      position_ = 0;
      if (ahead_.empty()) return any;
    }
    const std::size_t end = std::min(ahead_.find('\n', position_), ahead_.size());
    const std::size_t room = max_bytes + 1 - std::min(max_bytes + 1, line.size());
    line.append(ahead_, position_, std::min(room, end - position_));
    position_ = end;
    if (end == ahead_.size()) continue;
    ++position_;
    return line_had_end_ = true;
  }
}

std::string beginning_of(const std::string& path, std::size_t bytes) {
  std::string text(bytes, '\0');
  text.resize(InputFile(path).read(text.data(), bytes));
  return text;
}

std::string read_file(const std::string& path, std::uint64_t most_bytes, const char* what) {
  InputFile file(path);
  const auto refuse_size = [&] {
    const bool in_mib = most_bytes >= std::uint64_t{1} << 20;
    refuse(path, fmt::format("is larger than {}{}, which no {} is", most_bytes >> (in_mib ? 20 : 10),
                             in_mib ? " MiB" : " KiB", what));
  };
  if (file.size() > most_bytes) refuse_size();
  std::string text;
  for (std::size_t chunk = file.size() + 1;; chunk = kChunk) {
    const std::size_t before = text.size();
    text.resize(before + chunk);
    text.resize(before + file.read(text.data() + before, chunk));
    if (text.size() > most_bytes) refuse_size();  // a file of /proc, whose size is 0, or a file that grows
    if (text.size() < before + chunk) return text;
  }
}

}  // namespace moescope
