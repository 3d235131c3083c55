// Reading of files whose path the user gives. Only regular files are opened: a named pipe that nobody writes to would
// block for ever, and a device may never end.
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

  std::size_t read(char* to, std::size_t bytes);  // bytes read: fewer than asked only at the end of the file
  // The next line without its line end; false: no more. A line longer than `most` is cut to `most` + 1 bytes, by which
  // the caller recognises it; the rest of it is skipped.
  bool read_line(std::string& line, std::size_t most);
  bool line_had_end() const { return line_had_end_; }  // the last one that was read; a file may end without
  std::uint64_t size() const { return size_; }         // when the file was opened
  int descriptor() const { return descriptor_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::string ahead_;  // read from the file, not yet returned by read_line
  std::size_t taken_ = 0;
  bool line_had_end_ = false;
};

// The whole file; a larger one is refused: "PATH: is larger than 64 MiB, which no WHAT is".
std::string read_file(const std::string& path, std::uint64_t most_bytes, const char* what);

}  // namespace moescope
