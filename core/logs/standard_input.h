// Standard input as a file: a thread copies it into a temporary file, which readers open like any other file.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace moescope {

inline constexpr const char* kStandardInput = "-";  // stands for standard input where a file is named
inline constexpr const char* kStandardInputName = "standard input";

// Returns a text about files, for example an error, in which the name of standard input replaces the path of its copy;
// of "-" the name.
std::string named_standard_input(std::string text);

// Throws std::runtime_error if standard input is a terminal or is closed.
void require_standard_input();

// Only one may exist in a program. All functions may be called from any thread.
class StandardInput {
 public:
  // Begins to copy. Throws std::runtime_error as require_standard_input() does, or if the temporary file, which has no
  // name, cannot be written.
  StandardInput();
  ~StandardInput();  // ends the copying
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

  const std::string& path() const { return path_; }
  // Both wait, and return false if `stop` is requested before: until a whole line is in the file or the input has
  // ended; until the input has ended.
  bool wait_for_line(const std::stop_token& stop) const;
  bool wait_for_end(const std::stop_token& stop) const;
  bool has_ended() const;
  // Why it could not be read or copied to its end; empty if it could, or has not ended.
  std::string problem() const;

 private:
  void copy(const std::stop_token& stop);
  std::string copy_some(bool& ended);

  std::string path_;
  int file_ = -1;
  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;
  bool has_line_ = false, has_ended_ = false;
  std::string problem_;
  std::jthread thread_;  // last member, because the thread uses the others
};

}  // namespace moescope
