// Reads a log of JSON lines, or printed text, line by line; builds a history for each run. import_jsonl.h describes the
// forms.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

class LogReader {
 public:
  // `source`: value of RunInfo::source, the file. The progress of `options` is not used here.
  explicit LogReader(std::string source, ImportOptions options = {});
  ~LogReader();
  LogReader(LogReader&&) noexcept;

  void read_line(std::string_view line);  // without its newline; never throws
  void refuse_line(std::string why);      // counts a bad line that is not passed to read_line()
  // Completes the current step if it is given layer by layer, or the steps that wait for the first load, which gives
  // the number of layers. More lines may follow.
  void finish_step();
  std::shared_ptr<History> history() const;  // first run; nullptr before its first step
  Imported finish();                         // completes the current step and returns what was read
  std::vector<std::shared_ptr<History>> histories() const;
  std::vector<std::string> run_names() const;  // all runs with steps, including those that were not read
  std::int64_t lines() const;
  std::int64_t steps() const;  // summed over all runs
  const BadLines& bad() const;
  // Returns the reason to refuse the log after its last line: no name is known, or most steps were dropped although the
  // training did not restart; empty if the log is accepted.
  std::string refusal() const;
  // Remarks for the user: restarts, the recognised kind of log, names that are not shown.
  std::vector<std::string> remarks() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
