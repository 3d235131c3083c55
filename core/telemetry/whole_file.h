// A text file that is there whole or not at all: written beside its place, and moved there at the end.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

namespace moescope {

// Every failure throws std::runtime_error "PATH: cannot be written: why".
class WholeFile {
 public:
  explicit WholeFile(const std::string& path);
  ~WholeFile();  // leaves nothing if not finished
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::string_view text);
  void finish();

 private:
  [[noreturn]] void fail() const;
  std::string path_, temporary_;
  std::ofstream file_;
  bool finished_ = false;
};

}  // namespace moescope
