// Training logs as JSON lines: the program's own form (assets/python/README.md), and unchanged logs of other programs,
// whose names the table of names has (tag_map.h). docs/logs.md has the rules for lines, steps and restarts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/logs/lines/text_log.h"

namespace moescope {

// Reads a log of JSON lines or printed text (text_log.h) line by line, and builds a history for each run.
class LogReader {
 public:
  // `source`: the file, for RunInfo::source.
  explicit LogReader(std::string source, ImportOptions options = {})
      : runs_(std::move(source), std::move(options), false, "line"), json_(runs_), text_(runs_) {}
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // `line`: without its newline; `number`: if it is not the next. Never throws.
  void read_line(std::string_view line, std::int64_t number = 0);
  void read_last_line(std::string_view line);  // without a line end
  // Reads an object as a line; `step`: if it stands outside the object.
  void read_object(const JsonFields& object, std::optional<std::int64_t> step = std::nullopt);
  // Adds a text to all objects that follow: the name of their run or split.
  void label(std::string_view name, std::string_view text) { label_ = {std::string(name), std::string(text)}; }
  void refuse_line(std::string reason);  // counts a bad line that is not passed to read_line()
  // Adds the current step to its run even if further layers of it may follow, and the steps that are held until the
  // first load gives the number of layers. More lines may follow.
  void finish_step() { runs_.show_steps(); }
  // Returns the runs, lines and remarks; to be called once, after the last line. Throws TooManyRuns; RefusedLog if
  // there is no run, or if options.growing is not set and no name is known, or the lines are in no order.
  Imported finish();
  std::vector<std::shared_ptr<History>> histories() const { return runs_.histories(); }
  std::shared_ptr<History> history() const {  // first run; nullptr before its first step
    return histories().empty() ? nullptr : histories().front();
  }
  std::int64_t lines() const { return lines_; }
  const BadLines& bad() const { return runs_.context().bad; }
  // True if a last line without a newline can be read before it ends: a whole object, or a printed step of a log whose
  // lines are not numbered.
  bool is_whole(std::string_view line);
  // True if this log, which replaced `earlier`, has the next steps of its runs: their layers and experts are the same,
  // and they begin after its last steps, or for lines without a step at its last epoch.
  bool goes_on_from(const LogReader& earlier) const;
  // True if a rank has lines of steps that another one has finished, whose loads only import_jsonl() adds.
  bool has_ranks_in_turn() const { return std::ranges::any_of(runs_.runs(), &RunBuilder::has_ranks_in_turn); }
  ImportAccount account() const;
  // Returns remarks for the user: restarts, the recognised kind of log, names that are not shown.
  std::vector<std::string> remarks() const;

 private:
  BadLines& bad_lines() { return runs_.context().bad; }
  std::optional<std::string_view> whole_object(std::string_view read);
  template <class Take>
  void read(Take take);
  void take(const JsonFields& fields, std::string_view line, bool is_whole_line, std::optional<std::int64_t> step = {});
  void count_first_line(const LogRecord& record, std::string_view line);
  void read_text(std::string_view line);

  LogRuns runs_;
  JsonRecords json_;
  JsonLines parser_;
  TextLogReader text_;
  enum class Form { unknown, json, text } form_ = Form::unknown;
  std::int64_t lines_ = 0, lines_of_text_ = 0;  // all lines; lines of printed text that have figures of a step
  std::int64_t last_bad_line_ = 0;
  std::int64_t unread_loads_ = 0, first_unread_ = 0;  // printed lines with experts of which nothing is read; the first
  std::pair<std::string, std::string> label_;
  std::string last_step_line_;   // the last line with figures of a step
  std::string object_;           // lines of an indented object
  std::string last_checkpoint_;  // its name, or the number of lines with figures before it
  std::size_t object_lines_ = 0;
  std::string first_line_, names_of_first_;  // a line without a step; its names
  std::vector<std::string> unknown_lines_;   // the first ones that are neither JSON nor have a known step
};

// Splits chunks of a file into lines. Lines longer than kLongestLine are counted as bad.
class LineSplitter {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{64} << 20;
  void add(std::string_view chunk, LogReader& reader);
  // Passes the last line, which has no newline, to `reader`; `ends_file`: it may be cut off.
  void finish(LogReader& reader, bool ends_file = false);
  // Passes the last line to `reader`, although it may go on. If it does, the whole line is passed again.
  void read_part(LogReader& reader);
  bool holds_part() const { return !part_.empty() || too_long_; }
  bool holds_unread_part() const { return holds_part() && !part_is_read_; }
  const std::string& part() const { return part_; }

 private:
  void add_part(std::string_view piece);
  std::string part_;
  bool too_long_ = false, part_is_read_ = false;
};

// Throws std::runtime_error if the file cannot be read, has no step (then with the error of the first bad line), or is
// refused (LogReader::finish()).
Imported import_jsonl(const std::string& path, const ImportOptions& options = {});
// True for a log in which a rank has the lines of all steps before the next one has any.
bool has_ranks_in_turn(const std::string& path, const ImportOptions& options);

}  // namespace moescope
