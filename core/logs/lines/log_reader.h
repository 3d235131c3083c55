// Reads a log of JSON lines, or of the text that programs print, line after line: a history for each run. The forms:
// import_jsonl.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

class LogReader {
 public:
  // `source` is what RunInfo::source says: the file. `options` must live as long as the reader; its progress is not
  // used here.
  LogReader(std::string source, const ImportOptions& options);
  explicit LogReader(std::string source);
  ~LogReader();
  LogReader(LogReader&&) noexcept;

  void read_line(std::string_view line);  // without its newline; never throws
  void refuse_line(std::string why);      // counts a line that was not passed to read_line()
  // Takes the step in work as complete: one given layer by layer, or steps that wait for the first load, which gives
  // the number of layers. More lines may follow.
  void finish_step();
  std::shared_ptr<History> history() const;  // of the first run; nullptr before its first step
  std::vector<std::shared_ptr<History>> histories() const;
  std::vector<std::string> run_names() const;  // of all runs that have steps, those that were not read, too
  std::int64_t lines() const;
  std::int64_t steps() const;  // of all runs
  std::int64_t bad_lines() const { return bad().count(); }
  const std::vector<BadLine>& first_bad_lines() const { return bad().first(); }
  const BadLines& bad() const;
  // Why what was read is no log, at its end: no name is known, or most steps went as those of earlier attempts that
  // were none. Empty: it is one.
  std::string refusal() const;
  // What the user should know: restarts, what the log was read as, names that are not shown.
  std::vector<std::string> remarks() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
