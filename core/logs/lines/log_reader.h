// Reads a log of JSON lines or printed text line by line, and builds a history for each run. import_jsonl.h and
// text_log.h describe the forms.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/text/json_values.h"
#include "core/logs/import.h"

namespace moescope {

class LogReader {
 public:
  // `source`: the file, for RunInfo::source.
  explicit LogReader(std::string source, ImportOptions options = {});
  ~LogReader();
  LogReader(LogReader&&) noexcept;

  void read_line(std::string_view line);  // without its newline; never throws
  // Reads an object as a line; `step`: if it stands outside the object.
  void read_object(const JsonFields& object, std::optional<std::int64_t> step = std::nullopt);
  void refuse_line(std::string reason);  // counts a bad line that is not passed to read_line()
  // Adds the current step to its run even if further layers of it may follow, and the steps that are held until the
  // first load gives the number of layers. More lines may follow.
  void finish_step();
  std::shared_ptr<History> history() const;  // first run; nullptr before its first step
  // Returns the runs, lines and remarks; to be called once, after the last line. Throws TooManyRuns; RefusedLog if
  // there is no run, or if options.growing is not set and no name is known, the lines are in no order (is_shuffled()),
  // or the steps begin again in every epoch.
  Imported finish();
  std::vector<std::shared_ptr<History>> histories() const;
  std::int64_t lines() const;
  std::int64_t steps() const;  // summed over all runs
  const BadLines& bad() const;
  // True if a last line without a newline can be read before it ends: a whole object, or a printed step of a log whose
  // lines are not numbered.
  bool is_whole(std::string_view line) const;
  // True if this log, which replaced `earlier`, has the next steps of its runs: their layers and experts are the same,
  // and they begin after its last steps, or for lines without a step at its last epoch.
  bool goes_on_from(const LogReader& earlier) const;
  ImportAccount account() const;
  // Returns remarks for the user: restarts, the recognised kind of log, names that are not shown.
  std::vector<std::string> remarks() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
