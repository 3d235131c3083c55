// Files that are named from outside, for reading. Only regular ones are opened: a named pipe that nobody writes to, or
// a device, would keep the reader waiting for ever or never come to an end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace moescope {

// Throws std::runtime_error "PATH: is a named pipe (FIFO), expected a file", "PATH: No such file or directory".
void require_regular_file(const std::string& path);

// Every failure throws std::runtime_error "PATH: why".
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::size_t read(char* to, std::size_t bytes);  // how many there were: fewer only at the end
  // The next line without its end; false: no more. Of a longer one the first `most` bytes and one more, so that its
  // size tells; the rest is passed over.
  bool read_line(std::string& line, std::size_t most);
  std::uint64_t size() const { return size_; }  // when it was opened
  int descriptor() const { return descriptor_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::string ahead_;  // read, but not yet taken by read_line
  std::size_t taken_ = 0;
};

// All of it; one with more bytes is refused as "PATH: is larger than 64 MiB, which no WHAT is".
std::string read_file(const std::string& path, std::uint64_t most_bytes, const char* what);

}  // namespace moescope
