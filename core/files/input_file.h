// Reads files whose path the user gives. Only regular files are opened: opening a named pipe that nobody writes to
// would block forever, and reading a device may never end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

struct gzFile_s;

namespace moescope {

// Throws std::runtime_error with "PATH: is a named pipe (FIFO), expected a file", "PATH: No such file or directory",
// ...
void require_regular_file(const std::string& path);

// Returns the suffix of a file name without that of gzip: ".csv" of "run.csv.gz".
std::string suffix_of(const std::string& path);

// Every member throws std::runtime_error "PATH: why" if it fails. A Git LFS pointer, the text that stands for a file
// which was not downloaded, cannot be opened. Of a file that gzip compressed, its text is read, and UTF-16 as UTF-8.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::size_t read(char* to, std::size_t bytes);  // returns the bytes read; fewer than `bytes` only at the end
  // Reads the next line, without its line end; false at the end of the file. A line longer than `max_bytes` is cut to
  // `max_bytes`
  // + 1 bytes, which tells the caller that it was too long; the rest of the line is skipped.
  bool read_line(std::string& line, std::size_t max_bytes);
  bool line_had_end() const { return line_had_end_; }     // false if the file ended before a line end
  std::uint64_t size() const { return size_; }            // bytes when the file was opened
  bool is_decoded() const { return !encoding_.empty(); }  // its bytes are not those that are read
  int descriptor() const;                                 // for other ways of reading; refuses a file that is decoded

 private:
  std::size_t read_bytes(char* to, std::size_t bytes);

  std::string path_, encoding_;
  int descriptor_ = -1;
  std::unique_ptr<gzFile_s, int (*)(gzFile_s*)> compressed_;  // owns the descriptor
  std::uint64_t size_ = 0;
  std::optional<bool> is_big_endian_;  // of UTF-16
  std::string utf16_, text_;           // bytes of half a character; its text that read() has not returned yet
  std::string ahead_;                  // bytes read from the file that read_line has not returned yet
  std::size_t position_ = 0;
  bool line_had_end_ = false;
};

// Returns the first bytes of a file, fewer if it is shorter.
std::string beginning_of(const std::string& path, std::size_t bytes);
// Returns the whole file. Throws if the file is larger: "PATH: is larger than 64 MiB, which no WHAT is".
std::string read_file(const std::string& path, std::uint64_t most_bytes, const char* what);

}  // namespace moescope
